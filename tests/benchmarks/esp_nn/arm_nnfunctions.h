/* The calls that a library makes of CMSIS-NN, handed on to ESP-NN: so its plain C forms run in plans of
   this package. They take no scratch and no dilation. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "esp_nn.h"

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
typedef struct { cmsis_nn_tile stride, padding; cmsis_nn_activation activation; } cmsis_nn_pool_params;
typedef struct {
    int32_t input_offset, filter_offset, output_offset;
    cmsis_nn_activation activation;
} cmsis_nn_fc_params;

#define NOTHING_ASKED(...) 0
#define arm_convolve_s8_get_buffer_size NOTHING_ASKED
#define arm_depthwise_conv_wrapper_s8_get_buffer_size NOTHING_ASKED
#define arm_avgpool_s8_get_buffer_size NOTHING_ASKED
#define arm_fully_connected_s8_get_buffer_size NOTHING_ASKED

#define DIMS(d) {(d)->w, (d)->h, (d)->c, 1}
#define PAIR(t) {(t).w, (t).h}
#define LIMITS(p) {(p)->activation.min, (p)->activation.max}

static inline arm_cmsis_nn_status arm_convolve_s8(
    const cmsis_nn_context *context, const cmsis_nn_conv_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *sums, const int32_t *bias,
    const cmsis_nn_dims *upscale, const cmsis_nn_dims *out, int8_t *to)
{
    data_dims_t given = DIMS(in), taps = DIMS(with), made = DIMS(out);
    conv_params_t how = {p->input_offset, p->output_offset, PAIR(p->stride), PAIR(p->padding),
                         PAIR(p->dilation), LIMITS(p)};
    quant_data_t factors = {by->shift, by->multiplier};
    (void)context, (void)sums, (void)upscale;
    if (p->dilation.w != 1 || p->dilation.h != 1) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    esp_nn_conv_s8(&given, from, &taps, weights, bias, &made, to, &how, &factors);
    return ARM_CMSIS_NN_SUCCESS;
}

#define arm_convolve_wrapper_s8(context, p, by, in, from, with, weights, sums, bias, out, to) \
    arm_convolve_s8(context, p, by, in, from, with, weights, sums, bias, NULL, out, to)

static inline arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *context, const cmsis_nn_dw_conv_params *p,
    const cmsis_nn_per_channel_quant_params *by, const cmsis_nn_dims *in, const int8_t *from,
    const cmsis_nn_dims *with, const int8_t *weights, const cmsis_nn_dims *sums, const int32_t *bias,
    const cmsis_nn_dims *out, int8_t *to)
{
    data_dims_t given = DIMS(in), taps = DIMS(with), made = DIMS(out);
    dw_conv_params_t how = {p->input_offset, p->output_offset, p->ch_mult, PAIR(p->stride),
                            PAIR(p->padding), PAIR(p->dilation), LIMITS(p)};
    quant_data_t factors = {by->shift, by->multiplier};
    (void)context, (void)sums;
    if (p->dilation.w != 1 || p->dilation.h != 1) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    esp_nn_depthwise_conv_s8(&given, from, &taps, weights, bias, &made, to, &how, &factors);
    return ARM_CMSIS_NN_SUCCESS;
}

#define POOLED(function, context, p, in, from, with, out, to) \
    ((void)(context), \
     function(from, (uint16_t)(in)->w, (uint16_t)(in)->h, to, (uint16_t)(out)->w, (uint16_t)(out)->h, \
              (uint16_t)(p)->stride.w, (uint16_t)(p)->stride.h, (uint16_t)(with)->w, \
              (uint16_t)(with)->h, (uint16_t)(p)->padding.w, (uint16_t)(p)->padding.h, \
              (p)->activation.min, (p)->activation.max, (uint16_t)(in)->c), \
     ARM_CMSIS_NN_SUCCESS)
#define arm_avgpool_s8(...) POOLED(esp_nn_avg_pool_s8, __VA_ARGS__)
#define arm_max_pool_s8(...) POOLED(esp_nn_max_pool_s8, __VA_ARGS__)

#define arm_elementwise_add_s8(one, other, zero1, by1, shift1, zero2, by2, shift2, left, to, ...) \
    (esp_nn_add_elementwise_s8(one, other, zero1, zero2, by1, by2, shift1, shift2, left, to, \
                               __VA_ARGS__), \
     ARM_CMSIS_NN_SUCCESS)

#define CONNECTED(function, p, shift, multiplier, from, with, weights, bias, out, to) \
    (function(from, (p)->input_offset, (uint16_t)(with)->n, weights, 0, bias, to, \
              (uint16_t)(out)->c, (p)->output_offset, shift, multiplier, (p)->activation.min, \
              (p)->activation.max), \
     ARM_CMSIS_NN_SUCCESS)
#define arm_fully_connected_s8(context, p, by, in, from, with, weights, sums, bias, out, to) \
    CONNECTED(esp_nn_fully_connected_s8, p, (by)->shift, (by)->multiplier, from, with, weights, bias, \
              out, to)
#define arm_fully_connected_per_channel_s8(context, p, by, in, from, with, weights, sums, bias, out, \
                                           to) \
    CONNECTED(esp_nn_fully_connected_per_ch_s8, p, (by)->shift, (by)->multiplier, from, with, weights, \
              bias, out, to)
