/* The C parts of ESP-NN's convolutions for the ESP32-S3, with plain loops in place of their assembly,
   on random layers: blocks of rows, and all rows. Built for 32 bits. Prints how many calls there were,
   how many gave other bytes than the reference form, how many wrote behind the scratch that they had
   asked for, and the most bytes so written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common_functions.h"
#include "esp_nn_ansi_headers.h"
#include "esp_nn_defs.h"

typedef struct {
    const int32_t *bias, *shift, *multiplier;
    int32_t zero, least, most;
} scaled;

static int8_t stored(int32_t sum, int channel, const scaled *by)
{
    sum += by->bias ? by->bias[channel] : 0;
    sum = esp_nn_multiply_by_quantized_mult(sum, by->multiplier[channel], by->shift[channel]);
    sum += by->zero;
    return (int8_t)(sum < by->least ? by->least : sum > by->most ? by->most : sum);
}

/* ---- In place of the assembly. */

int32_t esp_nn_dot_s8_aligned_esp32s3(const int8_t *one, const int8_t *other, int32_t count)
{
    int32_t sum = 0;
    while (count--) {
        sum += *one++ * *other++;
    }
    return sum;
}

/* Reads a padded input, and filters whose rows begin at multiples of 16 bytes. */
void esp_nn_conv_s8_filter_aligned_input_padded_esp32s3(
    const int8_t *in, uint16_t width, uint16_t height, uint16_t channels, int32_t offset,
    uint16_t across, uint16_t down, const int8_t *filters, uint16_t columns, uint16_t rows,
    const int32_t *bias, int8_t *out, uint16_t out_width, uint16_t out_height, uint16_t out_channels,
    int32_t zero, const int32_t *shift, const int32_t *multiplier, int32_t least, int32_t most,
    void *scratch)
{
    scaled by = {bias, shift, multiplier, zero, least, most};
    int y, x, f, i, j, size = (columns * channels + 15) & ~15;
    (void)height, (void)scratch;
    for (y = 0; y < out_height; y++) {
        for (x = 0; x < out_width; x++) {
            for (f = 0; f < out_channels; f++) {
                int32_t sum = 0;
                for (i = 0; i < rows; i++) {
                    const int8_t *from = in + ((y * down + i) * width + x * across) * channels;
                    const int8_t *with = filters + (f * rows + i) * size;
                    for (j = 0; j < columns * channels; j++) {
                        sum += (from[j] + offset) * with[j];
                    }
                }
                *out++ = stored(sum, f, &by);
            }
        }
    }
}

void esp_nn_conv_s8_1x1(const int8_t *in, uint16_t width, uint16_t height, uint16_t channels,
                        int32_t offset, const int8_t *filters, const int32_t *bias, int8_t *out,
                        uint16_t out_channels, int32_t zero, const int32_t *shift,
                        const int32_t *multiplier, int32_t least, int32_t most, void *scratch)
{
    scaled by = {bias, shift, multiplier, zero, least, most};
    int place, f, c;
    (void)scratch;
    for (place = 0; place < width * height; place++, in += channels) {
        for (f = 0; f < out_channels; f++) {
            int32_t sum = 0;
            for (c = 0; c < channels; c++) {
                sum += (in[c] + offset) * filters[f * channels + c];
            }
            *out++ = stored(sum, f, &by);
        }
    }
}

void esp_nn_conv_s8_mult8_1x1_esp32s3(const int8_t *in, uint16_t width, uint16_t height,
                                      uint16_t channels, int32_t offset, const int8_t *filters,
                                      const int32_t *bias, int8_t *out, uint16_t out_width,
                                      uint16_t out_height, uint16_t out_channels, int32_t zero,
                                      const int32_t *shift, const int32_t *multiplier, int32_t least,
                                      int32_t most, void *scratch)
{
    (void)out_width, (void)out_height;
    esp_nn_conv_s8_1x1(in, width, height, channels, offset, filters, bias, out, out_channels, zero,
                       shift, multiplier, least, most, scratch);
}

/* Depthwise windows, over numbers of a type. The input is padded where before is none. */
#define DEPTHWISE(name, number) \
    static void name(const number *in, int width, int height, int channels, int left, int top, \
                     int across, int down, int each, const number *filters, int columns, int rows, \
                     int32_t offset, int8_t *out, int out_width, int out_height, const scaled *by) \
    { \
        int y, x, f, i, j; \
        for (y = 0; y < out_height; y++) { \
            for (x = 0; x < out_width; x++) { \
                for (f = 0; f < channels * each; f++) { \
                    int32_t sum = 0; \
                    for (i = 0; i < rows; i++) { \
                        for (j = 0; j < columns; j++) { \
                            int row = y * down - top + i, column = x * across - left + j; \
                            if (row >= 0 && row < height && column >= 0 && column < width) { \
                                sum += (in[(row * width + column) * channels + f / each] + offset) * \
                                       filters[(i * columns + j) * channels * each + f]; \
                            } \
                        } \
                    } \
                    *out++ = stored(sum, f, by); \
                } \
            } \
        } \
    }
DEPTHWISE(deep_bytes, int8_t)
DEPTHWISE(deep_shorts, int16_t)

void esp_nn_depthwise_conv_s8_mult1_3x3_padded_esp32s3(
    const int8_t *in, uint16_t width, uint16_t height, uint16_t channels, int32_t offset,
    uint16_t across, uint16_t down, const int8_t *filters, const int32_t *bias, int8_t *out,
    uint16_t out_width, uint16_t out_height, int32_t zero, const int32_t *shift,
    const int32_t *multiplier, int32_t least, int32_t most)
{
    scaled by = {bias, shift, multiplier, zero, least, most};
    (void)height;
    deep_bytes(in, width, 65535, channels, 0, 0, across, down, 1, filters, 3, 3, offset, out, out_width,
               out_height, &by);
}

#define BEGIN const int16_t *in, uint16_t width, uint16_t height, uint16_t channels, uint16_t left, \
    uint16_t top, uint16_t across, uint16_t down
#define SIZES uint16_t columns, uint16_t rows
#define END const int32_t *bias, int8_t *out, uint16_t out_width, uint16_t out_height, int32_t zero, \
    const int32_t *shift, const int32_t *multiplier, int32_t least, int32_t most
#define SHORTS(each, columns, rows) \
    { \
        scaled by = {bias, shift, multiplier, zero, least, most}; \
        deep_shorts(in, width, height, channels, left, top, across, down, each, filters, columns, \
                    rows, 0, out, out_width, out_height, &by); \
    }
void esp_nn_depthwise_conv_s16_mult1_esp32s3(BEGIN, const int16_t *filters, SIZES, END)
SHORTS(1, columns, rows)
void esp_nn_depthwise_conv_s16_mult1_3x3_esp32s3(BEGIN, const int16_t *filters, END)
SHORTS(1, 3, 3)
void esp_nn_depthwise_conv_s16_mult4_esp32s3(BEGIN, uint16_t each, const int16_t *filters, SIZES, END)
SHORTS(each, columns, rows)
void esp_nn_depthwise_conv_s16_mult8_esp32s3(BEGIN, uint16_t each, const int16_t *filters, SIZES, END)
SHORTS(each, columns, rows)
void esp_nn_depthwise_conv_s16_mult8_3x3_esp32s3(BEGIN, uint16_t each, const int16_t *filters, END)
SHORTS(each, 3, 3)

void esp_nn_aligned_s8_to_s16_with_offset_esp32s3(const int8_t *from, int16_t *to, int count,
                                                  int32_t offset)
{
    while (count--) {
        *to++ = (int16_t)(*from++ + offset);
    }
}

void esp_nn_s8_to_s16_esp32s3(const int8_t *from, int16_t *to, int count)
{
    esp_nn_aligned_s8_to_s16_with_offset_esp32s3(from, to, count, 0);
}

/* ---- Random layers. */

#define CALL(name) name(const data_dims_t *, const int8_t *, const data_dims_t *, const int8_t *, \
                        const int32_t *, const data_dims_t *, int8_t *,
void CALL(esp_nn_conv_s8_esp32s3) const conv_params_t *, const quant_data_t *);
void CALL(esp_nn_depthwise_conv_s8_esp32s3) const dw_conv_params_t *, const quant_data_t *);
void esp_nn_set_conv_scratch_buf_esp32s3(void *);
void esp_nn_set_depthwise_conv_scratch_buf_esp32s3(void *);
int esp_nn_get_conv_scratch_size_esp32s3(const data_dims_t *, const data_dims_t *,
                                         const data_dims_t *, const conv_params_t *);
int esp_nn_get_depthwise_conv_scratch_size_esp32s3(const data_dims_t *, const data_dims_t *,
                                                   const data_dims_t *, const dw_conv_params_t *);

enum { FACTORS = 64, PLACES = 1 << 16, WEIGHTS = 1 << 15, SCRATCH = 1 << 20, UNUSED = 90 };
static int8_t input[PLACES] __attribute__((aligned(16)));
static int8_t weights[WEIGHTS] __attribute__((aligned(16)));
static int8_t found[PLACES] __attribute__((aligned(16))), wanted[PLACES];
static int32_t bias[FACTORS], shift[FACTORS], multiplier[FACTORS];
static uint8_t scratch[SCRATCH] __attribute__((aligned(16)));
static uint32_t drawn = 1;

static int below(int limit)
{
    drawn = drawn * 1103515245u + 12345u;
    return (int)(drawn >> 16) % limit;
}

/* Windows along an axis, as padding "same" or "valid" places them. */
typedef struct {
    int taps, stride, size, outputs, before;
} axis;

static axis draw_axis(int taps, int stride, int is_same)
{
    axis a = {taps, stride, taps + below(12), 0, 0};
    a.outputs = is_same ? (a.size + stride - 1) / stride : (a.size - taps) / stride + 1;
    a.before = is_same ? max(0, (a.outputs - 1) * stride + taps - a.size) / 2 : 0;
    return a;
}

typedef struct {
    int calls, differ, over, most;
} counts;

static void fill(int places)
{
    int i;
    memset(scratch, UNUSED, sizeof scratch);
    memset(input, 77, sizeof input);
    for (i = 0; i < places; i++) {
        input[i] = (int8_t)(below(256) - 128);
    }
    for (i = 0; i < WEIGHTS; i++) {
        weights[i] = (int8_t)(below(255) - 127);
    }
    for (i = 0; i < FACTORS; i++) {
        bias[i] = below(4000) - 2000;
        multiplier[i] = (1 << 30) + below(1 << 15) * (1 << 15);
        shift[i] = -5 - below(5);
    }
}

static void try_layer(counts counted[2][2])
{
    static const int sizes[] = {1, 2, 3, 4, 8, 12, 16, 20, 24, 32};
    int is_deep = below(2), is_same = below(2), stride = 1 + below(2), end, asked;
    int channels = sizes[below(10)], filters = is_deep ? channels : 1 + below(24);
    int is_three = below(3) == 0;
    axis down = draw_axis(is_three ? 3 : 1 + below(5), stride, is_same);
    axis across = draw_axis(below(2) ? down.taps : 1 + below(5), stride, is_same);
    int is_whole = below(4) == 0, first = is_whole ? 0 : below(down.outputs);
    int rows = is_whole ? down.outputs : 1 + below(down.outputs - first);
    int from = max(0, first * stride - down.before), above = from - (first * stride - down.before);
    int to = min(down.size, (first + rows - 1) * stride - down.before + down.taps);
    data_dims_t given = {across.size, to - from, channels, 1};
    data_dims_t taps = {across.taps, down.taps, is_deep ? 1 : channels, 1};
    data_dims_t made = {across.outputs, rows, filters, 1};
    int32_t zero_in = below(256) - 127, zero_out = below(50) - 25;
    quant_data_t factors = {shift, multiplier};
    data_2d_t step = {stride, stride}, around = {across.before, above}, once = {1, 1};
    act_params_t limits = {-128, 127};
    conv_params_t p = {zero_in, zero_out, step, around, once, limits};
    dw_conv_params_t q = {zero_in, zero_out, 1, step, around, once, limits};
    counts *kept = &counted[is_deep][is_whole];
    fill(given.width * given.height * channels);
    if (is_deep) {
        asked = esp_nn_get_depthwise_conv_scratch_size_esp32s3(&given, &taps, &made, &q);
        esp_nn_depthwise_conv_s8_esp32s3(&given, input, &taps, weights, bias, &made, found, &q,
                                         &factors);
        esp_nn_depthwise_conv_s8_ansi(&given, input, &taps, weights, bias, &made, wanted, &q,
                                      &factors);
    } else {
        asked = esp_nn_get_conv_scratch_size_esp32s3(&given, &taps, &made, &p);
        esp_nn_conv_s8_esp32s3(&given, input, &taps, weights, bias, &made, found, &p, &factors);
        esp_nn_conv_s8_ansi(&given, input, &taps, weights, bias, &made, wanted, &p, &factors);
    }
    for (end = SCRATCH; end > 0 && scratch[end - 1] == UNUSED; end--) {
    }
    kept->calls++;
    kept->differ += memcmp(found, wanted, (size_t)(rows * across.outputs * filters)) != 0;
    kept->over += end > asked;
    kept->most = max(kept->most, end - asked);
}

/* The scratch that the last convolution of resnet8 asks for: 3 x 3 taps, 64 channels and filters. */
static int largest_of_resnet8(void)
{
    data_dims_t given = {8, 8, 64, 1}, taps = {3, 3, 64, 1};
    conv_params_t p = {0, 0, {1, 1}, {1, 1}, {1, 1}, {-128, 127}};
    return esp_nn_get_conv_scratch_size_esp32s3(&given, &taps, &given, &p);
}

int main(int count, char **words)
{
    static counts counted[2][2]; /* depthwise; all rows */
    int i, is_deep, is_whole, layers = count > 1 ? atoi(words[1]) : 0;
    esp_nn_set_conv_scratch_buf_esp32s3(scratch);
    esp_nn_set_depthwise_conv_scratch_buf_esp32s3(scratch);
    for (i = 0; i < layers; i++) {
        try_layer(counted);
    }
    for (is_deep = 0; is_deep < 2; is_deep++) {
        for (is_whole = 0; is_whole < 2; is_whole++) {
            const counts *one = &counted[is_deep][is_whole];
            printf("%s, %s: %d calls, %d differ, %d write up to %d bytes behind their scratch\n",
                   is_deep ? "depthwise" : "convolution", is_whole ? "all rows" : "blocks of rows",
                   one->calls, one->differ, one->over, one->most);
        }
    }
    printf("scratch of the last convolution of resnet8: %d bytes\n", largest_of_resnet8());
    return 0;
}
