/* The native batch path: what its files share.
 *
 * A function takes the columns of a batch, writes to memory of the caller and never calls Python. ctypes lets go of
 * the interpreter's lock around it, and its own threads share the samples. Results equal those of the Python path bit
 * for bit: no sum may be reordered, and nothing is compiled with contracted multiply-adds or with fast mathematics.
 */
#ifndef DYNAMIC_CORE_H
#define DYNAMIC_CORE_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Columns of N samples, as `dynamic._arrays.described.Described` has them: strides are in bytes. */
typedef const uint64_t *addresses;
typedef const int64_t *extents;

/* The work for sample i. Jobs of one call run at the same time, each sample once, in any order. */
typedef void (*core_job)(void *context, int64_t i);

/* Do a job for each i below n, on so many threads, the caller's included. Returns when all are done. */
void core_share(core_job job, void *context, int64_t n, int threads);

#endif
