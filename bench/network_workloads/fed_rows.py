"""Money transfers between banks: what is known of the source's data, and the rest chosen to go with it.

Known: `amount > 500000` keeps one row in a thousand; `type_code = 1000` keeps far more than 30 %; all dates are in
November 2002; 300,000 rows fall into 10,000 pairs of bank and day and, with the first character of the account, into
about 95,000 groups. The last come out if rows are spread evenly over 1,000 banks, 10 days and 10 first characters.

Chosen: amounts are log-normal; an account belongs to one bank; one transfer in ten passes on what its sender has
received some days before, all of it or a part, and half of these what had been passed on to the sender. So chains of
five transfers are there to be found. Six transfers right after the history are made by hand, as in the source: with
them every one of the seven examples has something to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

HISTORY, INCREMENT = 300_000, 4_000
BANKS, ACCOUNTS_OF_A_BANK, ROWS_OF_A_DAY = 1_000, 200, 30_000
FIRST_DAY = np.datetime64("2002-11-17", "D")
SEED = 2002

COLUMNS = {
    "tranid": "BIGINT",
    "type_code": "INT",
    "tran_date": "TIMESTAMP",
    "amount": "DECIMAL(14, 2)",
    "sbank_aba": "INT",
    "sbank_name": "STRING",
    "rbank_aba": "INT",
    "rbank_name": "STRING",
    "orig_account": "STRING",
    "benef_account": "STRING",
}

#: The numbers of banks lie between 100,000,000 and 200,000,000; `fed_chains` tells two halves of them apart.
_FIRST_BANK, _BANK_STEP = 100_000_000, 100_000
_NAMED_BANKS = ("Citibank (New York State)", "Fleet Bank")

_OTHER_TYPES = (1001, 1031, 1500, 1502, 1600)
_COMMON_TYPE_SHARE = 0.8

_MEDIAN_CENTS = 500_000
# A standard normal draw exceeds 3.0902 once in a thousand, and 500,000 is 100 times the median.
_SPREAD = np.log(100.0) / 3.0902

_PASSED_ON = 0.1
_PARTS = np.array([1, 1, 1, 2, 4, 8])
_REACH = 6 * ROWS_OF_A_DAY

#: Bank and place of the account that sends and of the one that receives, and the amount. All are of type 1000.
_ALERTS = (
    ((0, 1), (1, 2), 12_000_000),
    ((1, 2), (2, 7), 11_000_000),
    ((2, 7), (3, 3), 11_000_000),
    ((3, 3), (4, 4), 11_000_000),
    ((5, 5), (6, 6), 120_000_000),
    ((6, 6), (7, 7), 60_000_000),
)


@dataclass(frozen=True)
class _Draws:
    """Columns of numbers: accounts are numbered through all banks, and amounts are in cents."""

    sender: np.ndarray
    receiver: np.ndarray
    cents: np.ndarray


def fed_rows(rows: int, seed: int = SEED) -> pa.Table:
    """The first so many transfers. More rows begin with the same ones."""
    drawn = _with_money_passed_on(rows, seed)
    number = np.arange(rows)
    sender_bank, receiver_bank = drawn.sender // ACCOUNTS_OF_A_BANK, drawn.receiver // ACCOUNTS_OF_A_BANK
    names = pa.array([_bank_name(bank) for bank in range(BANKS)])
    accounts = pa.array([_account_name(account) for account in range(BANKS * ACCOUNTS_OF_A_BANK)])
    return pa.table(
        {
            "tranid": pa.array(number + 1, pa.int64()),
            "type_code": _type_codes(rows, seed),
            "tran_date": pa.array((FIRST_DAY + number // ROWS_OF_A_DAY).astype("M8[us]")).cast(
                pa.timestamp("us", "UTC")
            ),
            "amount": _money(drawn.cents),
            "sbank_aba": pa.array(_FIRST_BANK + sender_bank * _BANK_STEP, pa.int32()),
            "sbank_name": names.take(pa.array(sender_bank)),
            "rbank_aba": pa.array(_FIRST_BANK + receiver_bank * _BANK_STEP, pa.int32()),
            "rbank_name": names.take(pa.array(receiver_bank)),
            "orig_account": accounts.take(pa.array(drawn.sender)),
            "benef_account": accounts.take(pa.array(drawn.receiver)),
        }
    )


def _with_money_passed_on(rows: int, seed: int) -> _Draws:
    """Independent transfers, some of which then begin where an earlier one ended."""
    sender = _stream(seed, 0).integers(0, BANKS * ACCOUNTS_OF_A_BANK, rows)
    receiver = _stream(seed, 1).integers(0, BANKS * ACCOUNTS_OF_A_BANK, rows)
    cents = np.maximum(np.exp(_stream(seed, 2).standard_normal(rows) * _SPREAD) * _MEDIAN_CENTS, 1).astype(np.int64)
    earlier = np.arange(rows) - _stream(seed, 3).integers(1, _REACH, rows)
    passing = (_stream(seed, 4).random(rows) < _PASSED_ON) & (earlier >= 0)
    parts = _PARTS[_stream(seed, 5).integers(0, len(_PARTS), rows)]
    passed = np.flatnonzero(passing)
    again = _stream(seed, 8).random(rows) < 0.5
    # In the order of time, since what is passed on may be passed on again.
    for row in passed:
        before = earlier[row]
        place = int(np.searchsorted(passed, before, side="right"))
        if again[row] and place:
            before = passed[place - 1]
        sender[row] = receiver[before]
        cents[row] = max(cents[before] // parts[row], 1)
    drawn = _Draws(sender, receiver, cents)
    _put_alerts(drawn)
    return drawn


def _put_alerts(drawn: _Draws) -> None:
    for row, (source, target, amount) in enumerate(_ALERTS, HISTORY):
        if row < len(drawn.cents):
            drawn.sender[row], drawn.receiver[row] = (bank * ACCOUNTS_OF_A_BANK + at for bank, at in (source, target))
            drawn.cents[row] = amount * 100


def _stream(seed: int, column: int) -> np.random.Generator:
    """Draws of a column are apart from those of the others, so that more rows begin with the same ones."""
    return np.random.default_rng([seed, column])


def _type_codes(rows: int, seed: int) -> pa.Array:
    common = _stream(seed, 6).random(rows) < _COMMON_TYPE_SHARE
    common[HISTORY : HISTORY + len(_ALERTS)] = True
    other = np.array(_OTHER_TYPES)[_stream(seed, 7).integers(0, len(_OTHER_TYPES), rows)]
    return pa.array(np.where(common, 1000, other), pa.int32())


def _money(cents: np.ndarray) -> pa.Array:
    """Cents as exact DECIMALs: the same digits, with the point two places further left."""
    whole = pa.array(cents, pa.int64()).cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(14, 2), len(whole), whole.buffers())


def _bank_name(bank: int) -> str:
    return _NAMED_BANKS[bank] if bank < len(_NAMED_BANKS) else f"Bank {bank:04d}"


def _account_name(account: int) -> str:
    """An account's first character is one of ten, evenly in every bank."""
    bank, place = divmod(account, ACCOUNTS_OF_A_BANK)
    return f"{place % 10}{bank:04d}{place:03d}"
