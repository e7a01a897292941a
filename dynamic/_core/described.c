/* Columns of the arrays of a list, read where NumPy keeps them. */
#include "core.h"

typedef struct { /* the beginning of NumPy's public PyArrayObject_fields, behind the head of all objects */
    char *data;
    int ndim;
    const int64_t *shape, *strides;
    const void *base, *descr;
} fields;

/* `dynamic._arrays.described.described` of n arrays of NumPy, given by their addresses as objects; 0 where their
 * types or numbers of dimensions differ. */
EXPORT int core_describe(int64_t n, addresses objects, int64_t head, int64_t ndim, uint64_t *pointers, int64_t *shapes,
                         int64_t *strides)
{
    const fields *first = (const fields *)(objects[0] + head);
    for (int64_t i = 0; i < n; i++) {
        const fields *array = (const fields *)(objects[i] + head);
        if (array->ndim != ndim || array->descr != first->descr)
            return 0;
        pointers[i] = (uint64_t)array->data;
        for (int64_t d = 0; d < ndim; d++) {
            shapes[i * ndim + d] = array->shape[d];
            strides[i * ndim + d] = array->strides[d];
        }
    }
    return 1;
}
