/* JPEG files of a batch: their headers, and their pixels by the libjpeg-turbo of Pillow's wheels.
 *
 * Only a strict subset of files is taken, as photos are. Of any other file, and of any that libjpeg has as much as a
 * warning of, the status says so, and `dynamic.kernels.cpu.images.jpeg` decides, and words the error.
 */
#include "core.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The interface of libjpeg, version 62, of machines of 64 bits: the library compares version and size. */
enum { VERSION = 62, GRAY = 1, RGB = 2, YCBCR = 3, HEADER_OK = 1, FASTEST = 1 };

struct decoder;

struct errors { /* jpeg_error_mgr */
    void (*error_exit)(struct decoder *);
    void (*emit_message)(struct decoder *, int level);
    char rest[152];
};

struct source { /* jpeg_source_mgr */
    const uint8_t *next;
    size_t left;
    void (*init)(struct decoder *);
    int (*fill)(struct decoder *);
    void (*skip)(struct decoder *, long n);
    int (*resync)(struct decoder *, int marker);
    void (*term)(struct decoder *);
};

struct decoder { /* jpeg_decompress_struct */
    struct errors *errors;
    void *memory, *progress, *client;
    int decompresses, state;
    struct source *source;
    uint32_t width, height;
    int components, file_colours, colours;
    uint32_t scale, scaled_from;
    double gamma;
    int buffered, raw, dct, unused[10 - 1];
    uint32_t out_width, out_height;
    int out_colours, channels, rows_at_once, mapped;
    void *map;
    uint32_t row;
    char counters[28];
    void *tables[3 * 4]; /* for quantization, and Huffman's two */
    char rest[336];
};
_Static_assert(sizeof(void *) != 8 || (offsetof(struct decoder, tables) == 200 && sizeof(struct decoder) == 632), "ABI");

/* The functions of the library, in the order of `_FUNCTIONS` in jpeg.py. */
struct libjpeg {
    struct errors *(*std_error)(struct errors *);
    void (*create)(struct decoder *, int version, size_t size);
    int (*read_header)(struct decoder *, int image_required);
    int (*start)(struct decoder *);
    void (*crop)(struct decoder *, uint32_t *first, uint32_t *width);
    uint32_t (*skip)(struct decoder *, uint32_t rows);
    uint32_t (*read)(struct decoder *, uint8_t **rows, uint32_t n);
    int (*finish)(struct decoder *);
    void (*abort)(struct decoder *);
    void (*destroy)(struct decoder *);
};

/* A file and its header, as `_Frame` in images/jpeg.py has it. */
struct file {
    const uint8_t *data, *names; /* of the components, three bytes apart */
    int64_t size, height, width, needed, first_scan;
    int components, across, down, orientation;
    bool progressive, restarts, plain;
};

/* The next segment: its marker, or 0 for one that no ordinary file has there, and for those that are no segments. */
static int segment(const struct file *f, int64_t *at, const uint8_t **content, int64_t *length)
{
    const uint8_t *p = f->data + *at;
    if (f->size - *at < 4 || p[0] != 0xFF || p[1] < 0xC0 || p[1] == 0xFF || (p[1] > 0xC2 && p[1] < 0xDA && p[1] != 0xC4))
        return 0;
    *content = p + 4;
    *length = (p[2] << 8 | p[3]) - 2;
    *at += 4 + *length;
    return *length < 0 || *at > f->size || p[1] == 0xDC ? 0 : p[1];
}

/* The orientation that an EXIF block has as cameras write it; 0 for none, -1 for anything unusual. */
static int orientation(const uint8_t *tiff, int64_t size)
{
    bool little = size >= 8 && !memcmp(tiff, "II*", 4);
#define SHORT(p) (little ? (p)[0] | (p)[1] << 8 : (p)[0] << 8 | (p)[1])
#define LONG(p) (little ? SHORT(p) | (int64_t)SHORT((p) + 2) << 16 : (int64_t)SHORT(p) << 16 | SHORT((p) + 2))
    if (size < 8 || (!little && memcmp(tiff, "MM\0*", 4)) || LONG(tiff + 4) > size - 2)
        return -1;
    const uint8_t *entry = tiff + LONG(tiff + 4);
    int64_t count = SHORT(entry);
    if (count * 12 > tiff + size - entry - 2)
        return -1;
    for (entry += 2; count--; entry += 12)
        if (SHORT(entry) == 0x0112) {
            int value = SHORT(entry + 8);
            return SHORT(entry + 2) == 3 && LONG(entry + 4) == 1 && value >= 1 && value <= 8 ? value : -1;
        }
    return 0;
}

static int64_t ceiling(int64_t extent, int64_t part) { return (extent + part - 1) / part; }
static int64_t blocks(int64_t extent, int factor, int most) { return ceiling(extent * factor, 8 * most); }

/* The frame: of 8 bits, gray, or colours of which the first has all the pixels and the others are alike. */
static bool read_frame(struct file *f, int marker, const uint8_t *p, int64_t length)
{
    static const uint8_t factors[] = {0x11, 0x21, 0x22, 0x12, 0x41};
    if (f->components || length < 9 || p[0] != 8 || (p[5] != 1 && p[5] != 3) || length != 6 + 3 * p[5] ||
        !memchr(factors, p[7], p[5] == 1 ? 1 : sizeof factors))
        return false;
    if (p[5] == 3 && (p[10] != 0x11 || p[13] != 0x11 || p[6] == p[9] || p[6] == p[12] || p[9] == p[12]))
        return false;
    f->height = p[1] << 8 | p[2];
    f->width = p[3] << 8 | p[4];
    f->components = p[5];
    f->names = p + 6;
    f->across = p[7] >> 4;
    f->down = p[7] & 15;
    f->progressive = marker == 0xC2;
    f->needed = blocks(f->width, f->across, f->across) * blocks(f->height, f->down, f->down) +
                (f->components - 1) * blocks(f->width, 1, f->across) * blocks(f->height, 1, f->down);
    f->needed *= f->progressive ? 1 : 2;
    return f->height && f->width;
}

/* `_header` and `_check_amount` of images/jpeg.py, for a strict subset of the files that these take. */
static bool read_header(struct file *f)
{
    const uint8_t *content;
    int64_t at = 2, length;
    if (f->size < 4 || f->data[0] != 0xFF || f->data[1] != 0xD8)
        return false;
    for (int count = 0, marker; count < 1024; count++) {
        f->first_scan = at;
        if (!(marker = segment(f, &at, &content, &length)) || (marker <= 0xC2 && !read_frame(f, marker, content, length)))
            return false;
        if (marker == 0xE1 && !f->orientation && length >= 6 && !memcmp(content, "Exif\0", 6))
            f->orientation = orientation(content + 6, length - 6);
        f->restarts |= marker == 0xDD;
        if (marker == 0xDA) {
            f->plain = length && !f->progressive && content[0] == f->components;
            f->orientation = f->orientation ? f->orientation : 1;
            return f->components && f->orientation > 0 && (f->size - f->first_scan) * 8 >= f->needed;
        }
    }
    return false;
}

/* The position of the marker that ends codes; -1 where there is none. Restarts end them unless there may be some. */
static int64_t after_codes(const struct file *f, int64_t at, bool restarts)
{
    const uint8_t *p;
    for (; at < f->size - 1 && (p = memchr(f->data + at, 0xFF, f->size - 1 - at)); at++) {
        at = p - f->data;
        if (p[1] != 0x00 && p[1] != 0xFF && !(restarts && p[1] >= 0xD0 && p[1] <= 0xD7))
            return at;
    }
    return -1;
}

/* `check_scans` of images/jpeg.py. */
static bool check_scans(const struct file *f, int64_t most)
{
    const uint8_t *content;
    int64_t at = f->first_scan, coded = 0, scans = 0, seen = 0, length;
    if (f->plain && f->height * f->width <= 1 << 23 && !memcmp(f->data + f->size - 2, "\xFF\xD9", 2))
        return true; /* libjpeg warns wherever this would find fault */
    while (f->size - at < 2 || f->data[at] != 0xFF || f->data[at + 1] != 0xD9) {
        int marker = segment(f, &at, &content, &length);
        if (marker <= 0xC2)
            return false;
        if (marker != 0xDA)
            continue;
        if (++scans > most || length < 6 || content[0] > f->components || length != 4 + 2 * content[0])
            return false;
        for (int i = 0; i < content[0]; i++) {
            int which = 0;
            for (int k = 0; k < f->components; k++)
                which |= (f->names[3 * k] == content[1 + 2 * i]) << k;
            if (!which)
                return false;
            seen |= content[length - 3] ? 0 : which;
        }
        coded -= at;
        at = after_codes(f, at, true);
        if (at < 0)
            return false;
        coded += at;
    }
    return seen == (1 << f->components) - 1 && coded * 8 >= f->needed;
}

/* A file of a batch: a row of the table in jpeg.py. The window is one of the upright image. */
struct sample {
    const uint8_t *data;
    int64_t size, known, corner[2], shape[3]; /* known: the orientation that it is turned from, or 0 */
    uint8_t *target;
    int64_t stride[3], done, scale; /* the window is one of the image with 1, 2, 4 or 8 times fewer rows and columns */
};

/* The common parts of a batch, and a reader for each thread. */
struct batch {
    const struct libjpeg *lib;
    struct sample *samples;
    struct reader *readers;
    int64_t most_scans;
    int threads, colours, fast, upright;
};

/* A decoder of one file after the other. The decoder is the first, so that its address is that of the whole. */
struct reader {
    struct decoder jpeg;
    struct errors errors;
    struct source source;
    jmp_buf stop;
    bool ready; /* whether the decoder is made */
    atomic_flag busy;
    const struct libjpeg *lib;
    struct file file;
    int64_t scale, rows, columns;     /* of the image as stored, reduced */
    int64_t top, left, height, width; /* the window in it */
    int64_t down, across;             /* the steps to its next row and column in the memory for it */
    uint8_t *to, *strip;              /* its first pixel there; rows on their way */
    int channels;
    const struct batch *batch;
};

enum { STRIP = 64, MARGIN = 2 }; /* rows; columns from which colours of half the width are interpolated */
enum { TURNED = 1, FROM_BELOW = 2, FROM_RIGHT = 4 };

static void stop(struct decoder *jpeg) { longjmp(((struct reader *)jpeg)->stop, 1); }
static void require(struct reader *r, bool fine) { fine ? (void)0 : stop(&r->jpeg); }
static void stop_at_warning(struct decoder *jpeg, int level) { level < 0 ? stop(jpeg) : (void)0; }
static void nothing(struct decoder *jpeg) { (void)jpeg; }
static int at_end(struct decoder *jpeg) { return stop(jpeg), 0; }
static int out_of_step(struct decoder *jpeg, int marker) { return (void)marker, stop(jpeg), 0; }

static void pass_over(struct decoder *jpeg, long n)
{
    struct source *source = jpeg->source;
    require((struct reader *)jpeg, n >= 0 && (size_t)n <= source->left);
    source->next += n;
    source->left -= n;
}

/* Whether work ended without an error. After one the decoder is made anew. */
static bool attempted(struct reader *r, void (*work)(struct reader *))
{
    if (_setjmp(r->stop)) {
        r->lib->destroy(&r->jpeg);
        r->ready = false;
    } else {
        work(r);
        r->ready = true;
    }
    free(r->strip);
    r->strip = NULL;
    return r->ready;
}

static void create(struct reader *r)
{
    r->jpeg.errors = r->lib->std_error(&r->errors);
    r->errors.error_exit = stop;
    r->errors.emit_message = stop_at_warning;
    r->lib->create(&r->jpeg, VERSION, sizeof r->jpeg);
    r->source = (struct source){NULL, 0, nothing, at_end, pass_over, out_of_step, nothing};
    r->jpeg.source = &r->source;
}

/* Pixels to their places, of which rows may be columns and either may run backwards. */
static void place(const struct reader *r, const uint8_t *from, int64_t pitch, int64_t first, int64_t rows)
{
    const bool turned = llabs(r->across) > llabs(r->down), back = (turned ? r->down : r->across) < 0;
    const int64_t n = turned ? rows : r->width, into = llabs(turned ? r->down : r->across), channels = r->channels;
    const int64_t step = (turned ? pitch : channels) * (back ? -1 : 1), last = back ? n - 1 : 0;
    for (int64_t i = 0; i < (turned ? r->width : rows); i++) {
        const uint8_t *restrict source = from + i * (turned ? channels : pitch) - last * step;
        uint8_t *restrict target = r->to + first * r->down + i * (turned ? r->across : r->down) - last * into;
        if (step == channels && into == channels)
            memcpy(target, source, n * channels);
        else if (channels == 1)
            for (int64_t k = 0; k < n; k++)
                target[k * into] = source[k * step];
        else {
            int64_t k = 0;
            for (; into == 3 && k < n - 1; k++) /* a byte more than a pixel: the next one covers it */
                memcpy(target + k * 3, source + k * step, 4);
            for (; k < n; k++)
                memcpy(target + k * into, source + k * step, 3);
        }
    }
}

/* Decode a window as `_whole` and `_window` of images/jpeg.py: a part of a file with one scan without most pixels around
 * it, and without the rows below where nothing but the end follows. Damage counts in all rows that are decoded there. */
static void decode(struct reader *r)
{
    const struct libjpeg *lib = r->lib;
    const struct file *f = &r->file;
    struct decoder *jpeg = &r->jpeg;
    if (!r->ready)
        create(r);
    r->source.next = f->data;
    r->source.left = f->size;
    require(r, lib->read_header(jpeg, 1) == HEADER_OK && jpeg->width == f->width && jpeg->height == f->height &&
                   jpeg->components == f->components && jpeg->file_colours >= GRAY && jpeg->file_colours <= YCBCR);
    jpeg->colours = r->channels == 1 ? GRAY : r->batch->colours;
    jpeg->dct = r->batch->fast ? FASTEST : 0;
    jpeg->scaled_from = r->scale;
    require(r, lib->start(jpeg) && jpeg->out_width == r->columns && jpeg->out_height == r->rows &&
                   jpeg->channels == r->channels);
    int64_t bottom = r->top + r->height, end = f->plain ? r->rows : bottom;
    uint32_t first = 0, columns = r->columns;
    bool part = f->plain && r->height * r->width * 32 <= 31 * r->rows * r->columns;
    if (part) {
        int64_t below = f->down > 1 ? f->down : 0, unit = 8 * f->down, rows = ceiling((bottom + below) * r->scale, unit);
        if (!f->restarts && (f->height - rows * unit) * 32 >= f->height) {
            int64_t after = after_codes(f, f->first_scan + 2, false);
            bool interpolated = r->scale == 1 || (r->scale < 8 && f->across == 1); /* of the row of blocks below, too */
            part = after >= 0 && f->data[after + 1] == 0xD9;
            end = part ? rows * unit / r->scale - interpolated * below : end;
        }
    }
    if (part) {
        int64_t step = 8 * f->across / r->scale, last = r->left + r->width + MARGIN;
        first = r->left > MARGIN ? (r->left - MARGIN) / step * step : 0;
        uint32_t from = first, wanted = columns = (last < r->columns ? last : r->columns) - first;
        lib->crop(jpeg, &from, &wanted);
        require(r, from == first && wanted == columns && (!r->top || lib->skip(jpeg, r->top) == r->top));
    }
    int64_t pitch = (int64_t)columns * r->channels, in_strip = (r->left - first) * r->channels;
    bool direct = r->across == r->channels && r->down > 0 && columns == r->width;
    require(r, (direct && !r->top && end <= bottom) || (r->strip = malloc(pitch * STRIP + 1)));
    while (jpeg->row < end) {
        int64_t row = jpeg->row, until = row < r->top ? r->top : row < bottom ? bottom : end;
        bool wanted = row >= r->top && row < bottom;
        if (part && row >= bottom && end - row > 1) /* for errors in their codes */
            row += lib->skip(jpeg, end - row - 1);
        uint32_t n = until - row < STRIP ? until - row : STRIP;
        uint8_t *rows[STRIP];
        for (uint32_t k = 0; k < n; k++)
            rows[k] = wanted && direct ? r->to + (row - r->top + k) * r->down : r->strip + k * pitch;
        for (uint32_t k = 0, got; k < n; k += got)
            require(r, (got = lib->read(jpeg, rows + k, n - k)) > 0);
        if (wanted && !direct)
            place(r, r->strip + in_strip, pitch, row - r->top, n);
    }
    if (end == r->rows)
        lib->finish(jpeg);
    lib->abort(jpeg);
    memset(jpeg->tables, 0, sizeof jpeg->tables); /* else the next file would be lent those that it lacks */
}

static bool decoded(const struct batch *b, const struct sample *s, struct reader *r)
{
    static const uint8_t ways[9] = {0, 0, 4, 6, 2, 1, 3, 7, 5}; /* by the orientation */
    const struct file *f = &r->file;
    int way = b->upright ? ways[f->orientation] : 0, turned = way & TURNED;
    int64_t top = s->corner[turned], left = s->corner[!turned];
    r->lib = (r->batch = b)->lib;
    r->height = s->shape[turned];
    r->width = s->shape[!turned];
    r->channels = (int)s->shape[2];
    r->scale = s->scale;
    r->rows = ceiling(f->height, s->scale);
    r->columns = ceiling(f->width, s->scale);
    if (top < 0 || left < 0 || r->height < 1 || r->width < 1 || top > r->rows - r->height ||
        left > r->columns - r->width || s->stride[2] != 1)
        return false;
    r->top = way & FROM_BELOW ? r->rows - top - r->height : top;
    r->left = way & FROM_RIGHT ? r->columns - left - r->width : left;
    r->down = s->stride[turned] * (way & FROM_BELOW ? -1 : 1);
    r->across = s->stride[!turned] * (way & FROM_RIGHT ? -1 : 1);
    r->to = s->target - (way & FROM_BELOW) / FROM_BELOW * (r->height - 1) * r->down;
    r->to -= (way & FROM_RIGHT) / FROM_RIGHT * (r->width - 1) * r->across;
    return check_scans(f, b->most_scans) && attempted(r, decode);
}

static void decode_one(void *context, int64_t i)
{
    const struct batch *b = context;
    struct sample *s = &b->samples[i];
    struct file f = {.data = s->data, .size = s->size};
    struct reader *r = b->readers;
    if (!s->known || !read_header(&f))
        return;
    for (int k = 0; atomic_flag_test_and_set(&r->busy);) /* there are as many as threads */
        r = &b->readers[k = (k + 1) % b->threads];
    r->file = f;
    s->done = decoded(b, s, r);
    atomic_flag_clear(&r->busy);
}

/* The columns of the table of files, where a library has this interface; else 0. */
EXPORT int core_jpeg_fits(const struct libjpeg *lib)
{
    struct reader r = {.lib = lib};
    bool fits = sizeof(void *) == 8 && attempted(&r, create);
    return fits ? lib->destroy(&r.jpeg), sizeof(struct sample) / 8 : 0;
}

/* `jpeg.header`: whether each file is ordinary and within the limits, and how it is turned; its image is the window.
 * Channels 0: as it has. */
EXPORT void core_jpeg_headers(struct sample *samples, int64_t n, int64_t most_bytes, int64_t most_pixels, int channels,
                              int upright)
{
    for (struct sample *s = samples; s < samples + n; s++) {
        struct file f = {.data = s->data, .size = s->size};
        s->known = s->stride[0] == 1 && s->size <= most_bytes && read_header(&f) && f.height * f.width <= most_pixels;
        s->known *= upright ? f.orientation : 1;
        bool turned = upright && f.orientation >= 5;
        s->corner[0] = s->corner[1] = 0;
        s->shape[turned] = f.height;
        s->shape[!turned] = f.width;
        s->shape[2] = channels ? channels : f.components;
    }
}

/* `jpeg.decode` and `convert.upright`: the window of each file to its target, and whether that went well. */
EXPORT void core_jpeg_decode(const struct libjpeg *lib, struct sample *samples, int64_t n, int64_t most_scans,
                             int colours, int fast, int upright, int threads)
{
    struct reader *readers = calloc(threads, sizeof *readers);
    struct batch b = {lib, samples, readers, most_scans, threads, colours, fast, upright};
    if (readers)
        core_share(decode_one, &b, n, threads);
    for (int k = 0; readers && k < threads; k++)
        if (readers[k].ready)
            lib->destroy(&readers[k].jpeg);
    free(readers);
}
