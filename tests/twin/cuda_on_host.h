// What a CUDA kernel needs to run as plain C++17 on the host, one thread of a block after the other.
//
// Threads of kernels that call __syncthreads are fibres: each runs up to a barrier, then the next one does. That a
// kernel has barriers is found out when a thread reaches the first one; the launch then begins anew with fibres.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

struct uint3 { unsigned x, y, z; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

static uint3 threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static const
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
template <class T> static inline T __ldg(const T* p) { return *p; }

template <class T> static inline T atomicAdd(T* p, T v) { const T before = *p; *p = before + v; return before; }

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned found = 0;
  for (int i = 0; i < 4; i++) found |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return found;
}
template <class To, class From> static inline To twin_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "of the same size");
  To found;
  memcpy(&found, &value, sizeof found);
  return found;
}
static inline long long __double_as_longlong(double v) { return twin_bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return twin_bits<double>(v); }
static inline unsigned __float_as_uint(float v) { return twin_bits<unsigned>(v); }
static inline float __uint_as_float(unsigned v) { return twin_bits<float>(v); }

namespace twin {

struct NeedsFibres {};

static bool fibres = false;   // whether threads are fibres now
static int reversed = 0;      // whether the last thread goes first
static unsigned char* shared; // dynamic shared memory of the block
static unsigned current;      // the fibre that runs

struct Fibre {
  ucontext_t context;
  char* stack = nullptr;
  bool done = false;
  void* fake = nullptr;
};

static const size_t STACK = 1 << 16;
static std::vector<Fibre> all;
static ucontext_t home;
static void* home_fake = nullptr;
static const void* home_bottom = nullptr;
static size_t home_size = 0;
static void (*body)(void**);
static void** arguments;

static inline void before_switch(void** fake, const void* bottom, size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake, bottom, size);
#else
  (void)fake, (void)bottom, (void)size;
#endif
}

static inline void after_switch(void* fake, const void** bottom, size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
  (void)fake, (void)bottom, (void)size;
#endif
}

static void barrier() {
  if (!fibres) throw NeedsFibres();
  Fibre& own = all[current];
  const uint3 index = threadIdx;
  before_switch(&own.fake, home_bottom, home_size);
  swapcontext(&own.context, &home);
  after_switch(own.fake, &home_bottom, &home_size);
  threadIdx = index;
}

static void trampoline() {
  after_switch(nullptr, &home_bottom, &home_size);
  body(arguments);
  Fibre& own = all[current];
  own.done = true;
  before_switch(nullptr, home_bottom, home_size);
  swapcontext(&own.context, &home);
}

static uint3 place(unsigned i) { return {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y}; }

// Runs the threads of a block; whether all of them reached the same barriers.
static bool run_block(unsigned count) {
  if (!fibres) {
    for (unsigned i = 0; i < count; i++) {
      threadIdx = place(reversed ? count - 1 - i : i);
      body(arguments);
    }
    return true;
  }
  if (all.size() < count) all.resize(count);
  for (unsigned i = 0; i < count; i++) {
    Fibre& one = all[i];
    if (!one.stack) one.stack = (char*)malloc(STACK);
    one.done = false;
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack;
    one.context.uc_stack.ss_size = STACK;
    one.context.uc_link = nullptr;
    makecontext(&one.context, trampoline, 0);
  }
  for (unsigned left = count; left;) {
    unsigned ended = 0;
    for (unsigned i = 0; i < count; i++) {
      current = reversed ? count - 1 - i : i;
      threadIdx = place(current);
      before_switch(&home_fake, all[current].stack, STACK);
      swapcontext(&home, &all[current].context);
      after_switch(home_fake, nullptr, nullptr);
      ended += all[current].done;
    }
    if (ended && ended != left) return false;
    left -= ended;
  }
  return true;
}

static bool run_grid(size_t bytes) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  bool fine = true;
  for (unsigned z = 0; fine && z < gridDim.z; z++)
    for (unsigned y = 0; fine && y < gridDim.y; y++)
      for (unsigned x = 0; fine && x < gridDim.x; x++) {
        blockIdx = {x, y, z};
        memset(shared, 0xCD, bytes);
        fine = run_block(count);
      }
  return fine;
}

// 0, or 1 where not all threads of a block came to a barrier.
static int run(void (*kernel)(void**), void** values, const unsigned* grid, const unsigned* block, size_t bytes,
               bool& has_barriers) {
  body = kernel, arguments = values;
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
  shared = (unsigned char*)malloc(bytes ? bytes : 1); // of this size exactly: AddressSanitizer sees what is beyond
  bool fine = true;
  try {
    fibres = has_barriers;
    fine = run_grid(bytes);
  } catch (const NeedsFibres&) {
    fibres = has_barriers = true;
    fine = run_grid(bytes);
  }
  free(shared);
  return fine ? 0 : 1;
}

template <class... P> struct Arguments {
  template <size_t... I> static void call(void (*kernel)(P...), void** values, std::index_sequence<I...>) {
    kernel(*(std::remove_const_t<P>*)values[I]...);
  }
  static int sizes(int* found) {
    int i = 0;
    ((found[i++] = (int)sizeof(P)), ...);
    return i;
  }
};

template <class... P> void call(void (*kernel)(P...), void** values) {
  Arguments<P...>::call(kernel, values, std::index_sequence_for<P...>());
}
template <class... P> int sizes(void (*)(P...), int* found) { return Arguments<P...>::sizes(found); }

} // namespace twin

#define __syncthreads() twin::barrier()

extern "C" __attribute__((visibility("default"))) void twin_reverse(int yes) { twin::reversed = yes; }

#define TWIN_ENTRY(name)                                                                                    \
  static void twin_call_##name(void** values) { twin::call(name, values); }                                 \
  extern "C" __attribute__((visibility("default"))) int twin_sizes_##name(int* found) {                     \
    return twin::sizes(name, found);                                                                        \
  }                                                                                                         \
  extern "C" __attribute__((visibility("default"))) int twin_launch_##name(                                 \
      void** values, const unsigned* grid, const unsigned* block, size_t shared) {                          \
    static bool has_barriers = false;                                                                       \
    return twin::run(twin_call_##name, values, grid, block, shared, has_barriers);                          \
  }

// Half precision, which device code converts with single instructions.

static inline double twin_scaled(double value, int exponent) { return ldexp(value, exponent); }

static inline float half_to_float(unsigned short bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  else if (exponent == 0) value = (float)twin_scaled(fraction, -24);
  else value = (float)twin_scaled(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

static inline unsigned short double_to_half(double value) {
  const unsigned short sign = signbit(value) ? 0x8000 : 0;
  const double size = fabs(value);
  if (size != size) return (unsigned short)(sign | 0x7e00);
  if (size >= 65520.0) return (unsigned short)(sign | 0x7c00);
  if (size < 6.103515625e-05) return (unsigned short)(sign | (unsigned short)nearbyint(twin_scaled(size, 24)));
  int exponent;
  const double fraction = frexp(size, &exponent);                        // size = fraction * 2 ** exponent
  const unsigned whole = (unsigned)nearbyint(twin_scaled(fraction, 11)); // 1024 to 2048
  return (unsigned short)(sign | (((unsigned)(exponent + 14) << 10) + (whole - 1024)));
}

static inline unsigned short float_to_half(float value) { return double_to_half(value); }
