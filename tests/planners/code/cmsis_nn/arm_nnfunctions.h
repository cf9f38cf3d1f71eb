/* A stand-in for CMSIS-NN in tests: the functions that a library calls, in plain loops by what their
   documentation says. It checks the geometry of a block, and asks for scratch of the formulas of the
   Cortex-M without DSP and MVE, which it fills. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum { ARM_CMSIS_NN_SUCCESS = 0, ARM_CMSIS_NN_ARG_ERROR = -1 } arm_cmsis_nn_status;
typedef struct { int32_t w, h; } cmsis_nn_tile;
typedef struct { void *buf; int32_t size; } cmsis_nn_context;
typedef struct { int32_t n, h, w, c; } cmsis_nn_dims;
typedef struct { int32_t *multiplier, *shift; } cmsis_nn_per_channel_quant_params;
typedef struct { int32_t multiplier, shift; } cmsis_nn_per_tensor_quant_params;
typedef struct { int32_t min, max; } cmsis_nn_activation;
typedef struct {
    int32_t input_offset, output_offset;
    cmsis_nn_tile stride, padding, dilation;
    cmsis_nn_activation activation;
} cmsis_nn_conv_params;
typedef struct {
    int32_t input_offset, output_offset, ch_mult;
    cmsis_nn_tile stride, padding, dilation;
    cmsis_nn_activation activation;
} cmsis_nn_dw_conv_params;
typedef struct {
    cmsis_nn_tile stride, padding;
    cmsis_nn_activation activation;
} cmsis_nn_pool_params;
typedef struct {
    int32_t input_offset, filter_offset, output_offset;
    cmsis_nn_activation activation;
} cmsis_nn_fc_params;

static inline int32_t stand_in_within(int64_t value, const cmsis_nn_activation *a)
{
    return (int32_t)(value < a->min ? a->min : value > a->max ? a->max : value);
}

/* A quotient by a power of two, halves away from zero. */
static inline int64_t stand_in_halved(int64_t value, int32_t power)
{
    int64_t whole = (int64_t)1 << power, half = power ? whole / 2 : 0;
    return value < 0 ? -((-value + half) / whole) : (value + half) / whole;
}

static inline int64_t stand_in_scaled(int64_t value, int32_t multiplier, int32_t shift)
{
    int64_t product = (shift > 0 ? value << shift : value) * multiplier + ((int64_t)1 << 30);
    return stand_in_halved(product >> 31, shift < 0 ? -shift : 0);
}

/* Each place under a window that is there, by the padding above and to the left. */
#define UNDER(in, at, stride, padding, dilation, y, x, i, j) \
    (at.h = (y) * (stride).h - (padding).h + (i) * (dilation).h, \
     at.w = (x) * (stride).w - (padding).w + (j) * (dilation).w, \
     at.h >= 0 && at.h < (in)->h && at.w >= 0 && at.w < (in)->w)

static inline arm_cmsis_nn_status stand_in_convolved(
    int is_deep, const cmsis_nn_conv_params *p, const cmsis_nn_per_channel_quant_params *by,
    const cmsis_nn_dims *in, const int8_t *from, const cmsis_nn_dims *with, const int8_t *weights,
    const int32_t *bias, const cmsis_nn_dims *out, int8_t *to)
{
    int32_t y, x, f, i, j, c, inputs = is_deep ? 1 : in->c;
    cmsis_nn_tile at;
    if (in->n != 1 || in->h < 1 || with->c != in->c || out->c != (is_deep ? in->c : with->n)) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    for (y = 0; y < out->h; y++) {
        for (x = 0; x < out->w; x++) {
            for (f = 0; f < out->c; f++) {
                int32_t sum = bias[f];
                for (i = 0; i < with->h; i++) {
                    for (j = 0; j < with->w; j++) {
                        if (!UNDER(in, at, p->stride, p->padding, p->dilation, y, x, i, j)) {
                            continue;
                        }
                        for (c = 0; c < inputs; c++) {
                            int32_t place = (at.h * in->w + at.w) * in->c + (is_deep ? f : c);
                            int32_t tap = i * with->w + j;
                            int8_t weight = is_deep ? weights[tap * in->c + f]
                                                    : weights[(f * with->h * with->w + tap) * in->c + c];
                            sum += weight * (from[place] + p->input_offset);
                        }
                    }
                }
                *to++ = (int8_t)stand_in_within(
                    stand_in_scaled(sum, by->multiplier[f], by->shift[f]) + p->output_offset, &p->activation);
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}

static inline int32_t arm_convolve_s8_get_buffer_size(const cmsis_nn_dims *in,
                                                      const cmsis_nn_dims *with)
{
    return (with->h * with->w * in->c + 3) / 4 * 16;
}

static inline arm_cmsis_nn_status arm_convolve_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_conv_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *bias_dims,
    const int32_t *bias, const cmsis_nn_dims *upscale, const cmsis_nn_dims *out, int8_t *to)
{
    if (!ctx->buf || upscale || bias_dims->c != out->c) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    memset(ctx->buf, 85, (size_t)arm_convolve_s8_get_buffer_size(in, with));
    return stand_in_convolved(0, p, by, in, from, with, weights, bias, out, to);
}

static inline arm_cmsis_nn_status arm_convolve_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_conv_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *bias_dims,
    const int32_t *bias, const cmsis_nn_dims *out, int8_t *to)
{
    (void)ctx;
    if (with->h * with->w != 1 || p->padding.h || p->padding.w || bias_dims->c != out->c ||
        p->dilation.h != 1 || p->dilation.w != 1) {
        return ARM_CMSIS_NN_ARG_ERROR; /* windows of one place only, whose blocks are like wholes */
    }
    return stand_in_convolved(0, p, by, in, from, with, weights, bias, out, to);
}

static inline int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(
    const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *in, const cmsis_nn_dims *with,
    const cmsis_nn_dims *out)
{
    (void)p, (void)in, (void)with, (void)out;
    return 0;
}

static inline arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *bias_dims,
    const int32_t *bias, const cmsis_nn_dims *out, int8_t *to)
{
    cmsis_nn_conv_params like;
    (void)ctx;
    like.input_offset = p->input_offset;
    like.output_offset = p->output_offset;
    like.stride = p->stride;
    like.padding = p->padding;
    like.dilation = p->dilation;
    like.activation = p->activation;
    if (p->ch_mult != 1 || with->n != 1 || bias_dims->c != out->c) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    return stand_in_convolved(1, &like, by, in, from, with, weights, bias, out, to);
}

static inline arm_cmsis_nn_status stand_in_pooled(int is_mean, const cmsis_nn_pool_params *p,
                                         const cmsis_nn_dims *in, const int8_t *from,
                                         const cmsis_nn_dims *with, const cmsis_nn_dims *out,
                                         int8_t *to)
{
    int32_t y, x, c, i, j;
    cmsis_nn_tile at, none = {1, 1};
    for (y = 0; y < out->h; y++) {
        for (x = 0; x < out->w; x++) {
            for (c = 0; c < out->c; c++) {
                int32_t sum = 0, count = 0, most = -128;
                for (i = 0; i < with->h; i++) {
                    for (j = 0; j < with->w; j++) {
                        if (UNDER(in, at, p->stride, p->padding, none, y, x, i, j)) {
                            int8_t value = from[(at.h * in->w + at.w) * in->c + c];
                            sum += value;
                            most = value > most ? value : most;
                            count++;
                        }
                    }
                }
                if (!count) {
                    return ARM_CMSIS_NN_ARG_ERROR;
                }
                sum = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
                *to++ = (int8_t)stand_in_within(is_mean ? sum : most, &p->activation);
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}

static inline int32_t arm_avgpool_s8_get_buffer_size(int width, int channels)
{
    (void)width, (void)channels;
    return 0;
}

static inline arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context *ctx,
                                                 const cmsis_nn_pool_params *p,
                                                 const cmsis_nn_dims *in, const int8_t *from,
                                                 const cmsis_nn_dims *with,
                                                 const cmsis_nn_dims *out, int8_t *to)
{
    (void)ctx;
    return stand_in_pooled(1, p, in, from, with, out, to);
}

static inline arm_cmsis_nn_status arm_max_pool_s8(const cmsis_nn_context *ctx,
                                                  const cmsis_nn_pool_params *p,
                                                  const cmsis_nn_dims *in, const int8_t *from,
                                                  const cmsis_nn_dims *with,
                                                  const cmsis_nn_dims *out, int8_t *to)
{
    (void)ctx;
    return stand_in_pooled(0, p, in, from, with, out, to);
}

static inline arm_cmsis_nn_status arm_elementwise_add_s8(
    const int8_t *one, const int8_t *other, int32_t one_offset, int32_t one_mult, int32_t one_shift,
    int32_t other_offset, int32_t other_mult, int32_t other_shift, int32_t left, int8_t *to,
    int32_t offset, int32_t mult, int32_t shift, int32_t least, int32_t most, int32_t count)
{
    cmsis_nn_activation limits = {least, most};
    for (; count > 0; count--) {
        int64_t sum = stand_in_scaled((int64_t)(*one++ + one_offset) * (1 << left), one_mult, one_shift);
        sum += stand_in_scaled((int64_t)(*other++ + other_offset) * (1 << left), other_mult, other_shift);
        *to++ = (int8_t)stand_in_within(stand_in_scaled(sum, mult, shift) + offset, &limits);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

static inline int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *with)
{
    (void)with;
    return 0;
}

static inline arm_cmsis_nn_status arm_fully_connected_per_channel_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *bias_dims,
    const int32_t *bias, const cmsis_nn_dims *out, int8_t *to)
{
    int32_t unit, i;
    (void)ctx;
    if (in->n != 1 || with->n != in->c || with->c != out->c || bias_dims->c != out->c) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    for (unit = 0; unit < out->c; unit++) {
        int32_t sum = bias[unit];
        for (i = 0; i < with->n; i++) {
            sum += *weights++ * (from[i] + p->input_offset);
        }
        *to++ = (int8_t)stand_in_within(stand_in_scaled(sum, by->multiplier[unit], by->shift[unit]) + p->output_offset,
                               &p->activation);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

static inline arm_cmsis_nn_status arm_fully_connected_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
    const cmsis_nn_per_tensor_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *bias_dims,
    const int32_t *bias, const cmsis_nn_dims *out, int8_t *to)
{
    int32_t unit;
    for (unit = 0; unit < out->c; unit++) {
        int32_t factors[2];
        cmsis_nn_per_channel_quant_params each;
        cmsis_nn_dims one = *with, made = *out, sums = *bias_dims;
        arm_cmsis_nn_status found;
        factors[0] = by->multiplier;
        factors[1] = by->shift;
        each.multiplier = factors;
        each.shift = factors + 1;
        one.c = made.c = sums.c = 1;
        found = arm_fully_connected_per_channel_s8(ctx, p, &each, in, from, &one,
                                                   weights + unit * with->n, &sums, bias + unit,
                                                   &made, to + unit);
        if (found) {
            return found;
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
