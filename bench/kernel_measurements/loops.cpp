// Plain ring-buffer loops over one key: what a C++ programmer would write for one query, compiled with -O2.
//
// `state` is a ring of `window` values and what else a loop remembers; each loop takes in `steps` partials and writes
// as many answers. The window is full when a loop begins: its ring holds zeros.

#include <cstdint>
#include <limits>

namespace {

// One value in, one out, one answer.
template <typename Value, typename Sum>
void slide_sum(const Value* in, Sum* out, int64_t steps, Value* ring, int64_t window, int64_t* at, Sum* sum) {
    int64_t slot = *at;
    Sum running = *sum;
    for (int64_t i = 0; i < steps; ++i) {
        running += static_cast<Sum>(in[i]) - ring[slot];
        ring[slot] = in[i];
        if (++slot == window) slot = 0;
        out[i] = running;
    }
    *at = slot;
    *sum = running;
}

// The rounded sum, and exactly what the rounding lost (Knuth).
inline double two_sum(double a, double b, double& lost) {
    const double total = a + b;
    const double b_seen = total - a;
    lost += (a - (total - b_seen)) + (b - b_seen);
    return total;
}

}  // namespace

extern "C" {

void sum_int64(const int64_t* in, int64_t* out, int64_t steps, int64_t* ring, int64_t window, int64_t* at,
               int64_t* sum) {
    slide_sum(in, out, steps, ring, window, at, sum);
}

// A sum of BIGINTs that must not wrap takes 128 bits.
void sum_int128(const int64_t* in, __int128* out, int64_t steps, int64_t* ring, int64_t window, int64_t* at,
                __int128* sum) {
    slide_sum(in, out, steps, ring, window, at, sum);
}

// Drifts, and loses all digits once a great value has passed.
void sum_double(const double* in, double* out, int64_t steps, double* ring, int64_t window, int64_t* at,
                double* sum) {
    slide_sum(in, out, steps, ring, window, at, sum);
}

// The same, with the rounding errors carried along: what a sum of DOUBLEs needs in order not to drift.
void sum_compensated(const double* in, double* out, int64_t steps, double* ring, int64_t window, int64_t* at,
                     double* sum) {
    int64_t slot = *at;
    double running = sum[0], lost = sum[1];
    for (int64_t i = 0; i < steps; ++i) {
        running = two_sum(running, in[i], lost);
        running = two_sum(running, -ring[slot], lost);
        ring[slot] = in[i];
        if (++slot == window) slot = 0;
        out[i] = running + lost;
    }
    *at = slot;
    sum[0] = running;
    sum[1] = lost;
}

// Blocks of one window each; the ring turns into suffix maxima in place. Faster by far than a deque.
void max_double(const double* in, double* out, int64_t steps, double* ring, int64_t window, int64_t* at,
                double* back) {
    const double nothing = -std::numeric_limits<double>::infinity();
    int64_t slot = *at;
    double newest = *back;
    for (int64_t i = 0; i < steps; ++i) {
        if (slot == window) {
            for (int64_t j = window - 2; j >= 0; --j) ring[j] = ring[j] > ring[j + 1] ? ring[j] : ring[j + 1];
            newest = nothing;
            slot = 0;
        }
        newest = in[i] > newest ? in[i] : newest;
        ring[slot++] = in[i];
        const double rest = slot < window ? ring[slot] : nothing;
        out[i] = rest > newest ? rest : newest;
    }
    *at = slot;
    *back = newest;
}
}
