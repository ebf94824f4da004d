-- Flights out of New York in 2013 and the weather at their airports.
-- Check this file with `weft check examples/flights.sql`, see how it is read with `weft explain --file examples/flights.sql`.

-- ---------------------------------------------------------------------------------------------------------------------
-- Two streams, and a table. Every stream says which column is its clock, and how late its rows may be.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE STREAM flights (
    time_hour TIMESTAMP,
    year INT, month INT, day INT, hour INT, minute INT,
    carrier STRING, flight INT, tailnum STRING,
    origin STRING, dest STRING,
    sched_dep_time INT, dep_time DOUBLE, dep_delay DOUBLE,
    sched_arr_time INT, arr_time DOUBLE, arr_delay DOUBLE,
    air_time DOUBLE, distance INT
)
WATERMARK FOR time_hour AS time_hour - INTERVAL 1 HOUR
USING parquet OPTIONS (path 'data/flights');

CREATE STREAM weather (
    time_hour TIMESTAMP,
    origin STRING, year INT, month INT, day INT, hour INT,
    temp DOUBLE, dewp DOUBLE, humid DOUBLE,
    wind_dir DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE,
    precip DOUBLE, pressure DOUBLE, visib DOUBLE
)
WATERMARK FOR time_hour AS time_hour - INTERVAL 2 HOURS
USING parquet OPTIONS (path 'data/weather');

-- A table does not flow: its rows are read when the project starts to run.
CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, tz INT)
USING parquet OPTIONS (path 'data/airports');

-- ---------------------------------------------------------------------------------------------------------------------
-- Selections pass rows through as they arrive.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE CONTINUOUS QUERY long_delays AS
SELECT time_hour, carrier, flight, origin, dest, dep_delay
FROM flights
WHERE dep_delay >= 120;

-- ---------------------------------------------------------------------------------------------------------------------
-- One meaning, four spellings. The first three windows are the same: 6 hours long, a new one every hour.
-- ---------------------------------------------------------------------------------------------------------------------

-- CQL's brackets.
CREATE CONTINUOUS QUERY delay_by_carrier AS
SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay, MAX(dep_delay) AS worst_delay
FROM flights [RANGE 6 HOURS SLIDE 1 HOUR]
GROUP BY carrier;

-- A function in FROM, with the slide before the range. WHERE picks rows, HAVING picks groups.
CREATE CONTINUOUS QUERY late_carriers AS
SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay
FROM HOP(flights, time_hour, INTERVAL 1 HOUR, INTERVAL 6 HOURS)
WHERE dep_delay IS NOT NULL
GROUP BY carrier
HAVING COUNT(*) > 10 AND mean_delay > 30;

-- Spark's window() in GROUP BY.
CREATE CONTINUOUS QUERY delay_by_airport AS
SELECT window.start, window.end, origin, STDDEV_SAMP(dep_delay) AS spread, MEDIAN(dep_delay) AS typical
FROM flights
GROUP BY window(time_hour, '6 hours', '1 hour'), origin;

-- Windows that do not overlap, in the longer form of the same function.
CREATE CONTINUOUS QUERY traffic AS
SELECT origin, dest, COUNT(*) AS flights, COUNT(DISTINCT tailnum) AS planes, SUM(distance) AS miles
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(time_hour), INTERVAL 1 DAY))
GROUP BY origin, dest;

-- Days that begin at five in the morning, UTC: midnight in New York, in winter.
CREATE CONTINUOUS QUERY daily_cancellations AS
SELECT COUNT(*) AS cancelled
FROM flights [RANGE 1 DAY SLIDE 1 DAY ORIGIN 5 HOURS]
WHERE dep_time IS NULL
EMIT EMPTY;

-- No window: the aggregate grows for ever, and a group is answered again whenever it changes.
CREATE CONTINUOUS QUERY fleet AS
SELECT carrier, COUNT(*) AS flights, MAX_BY(tailnum, air_time) AS longest_in_the_air
FROM flights
GROUP BY carrier;

-- ---------------------------------------------------------------------------------------------------------------------
-- A join: which rows meet is said by a window on each input. [NOW] is the very same clock value.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE VIEW flights_in_weather AS
SELECT f.time_hour, f.carrier, f.origin, f.dep_delay, w.wind_speed, w.visib
FROM flights [NOW] AS f JOIN weather [NOW] AS w ON f.origin = w.origin;

CREATE CONTINUOUS QUERY fog AS
SELECT * FROM flights_in_weather WHERE visib < 1 AND dep_delay > 0;

-- Joins without a window are bounded by a condition on the clocks.
CREATE CONTINUOUS QUERY after_a_gust AS
SELECT f.time_hour, f.carrier, f.flight, w.wind_gust
FROM flights AS f, weather AS w
WHERE f.origin = w.origin AND w.wind_gust > 40
  AND f.time_hour BETWEEN w.time_hour AND w.time_hour + INTERVAL 3 HOURS;

-- To aggregate a join, put a window on the view that holds it.
CREATE CONTINUOUS QUERY delay_by_wind AS
SELECT CASE WHEN wind_speed < 10 THEN 'calm' WHEN wind_speed < 25 THEN 'windy' ELSE 'storm' END AS wind,
       COUNT(*) AS flights, AVG(dep_delay) AS mean_delay
FROM flights_in_weather [RANGE 1 DAY SLIDE 6 HOURS]
GROUP BY 1;

-- Every row of a stream meets all rows of a table, so there is nothing to bound. The join has the clock of the stream,
-- and a window on the stream is the window of the query.
CREATE CONTINUOUS QUERY late_at AS
SELECT f.time_hour, f.carrier, f.flight, a.name AS destination, f.arr_delay
FROM flights AS f JOIN airports AS a ON f.dest = a.faa
WHERE f.arr_delay >= 120;

CREATE CONTINUOUS QUERY by_time_zone AS
SELECT a.tz, COUNT(*) AS flights, AVG(f.arr_delay) AS mean_delay
FROM flights [RANGE 1 DAY SLIDE 6 HOURS] AS f JOIN airports AS a ON f.dest = a.faa
GROUP BY a.tz;

-- ---------------------------------------------------------------------------------------------------------------------
-- Queries over queries, and set operators.
-- ---------------------------------------------------------------------------------------------------------------------

-- The answers of another query are a stream whose clock is the end of their window.
CREATE CONTINUOUS QUERY bad_days AS
SELECT carrier, COUNT(*) AS bad_hours, MAX(mean_delay) AS worst
FROM late_carriers [RANGE 1 DAY SLIDE 1 DAY]
GROUP BY carrier;

-- Carriers that were late and flew in fog, in the same six hours.
CREATE CONTINUOUS QUERY no_excuse AS
SELECT carrier FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] WHERE dep_delay > 60
EXCEPT
SELECT carrier FROM flights_in_weather [RANGE 6 HOURS SLIDE 1 HOUR] WHERE visib < 1;

-- Without windows a set operator remembers rows, and RETAIN says for how long.
CREATE CONTINUOUS QUERY routes AS
SELECT DISTINCT origin, dest FROM flights
RETAIN 30 DAYS;
