void small(hls::stream<input_t> &in, hls::stream<result_t> &out) {
    #pragma HLS INTERFACE axis port=in,out
    // hls-fpga-machine-learning insert layers
    hls::stream<input_t> in2("in2");
    #pragma HLS STREAM variable=in2 depth=16
    hls::stream<input_t> left("left");
    #pragma HLS STREAM variable=left depth=36
    hls::stream<input_t> right("right");
    #pragma HLS STREAM variable=right depth=16
    hls::stream<input_t> padded("padded");
    #pragma HLS STREAM variable=padded depth=36
    hls::stream<input_t> summed("summed");
    #pragma HLS STREAM variable=summed depth=16

    nnet::pooling2d_cl<input_t, input_t, config1>(in, in2); // first
    nnet::clone_stream<input_t, input_t, 32>(in2, left, right); // fork
    nnet::zeropad2d_cl<input_t, input_t, config2>(left, padded); // pad
    nnet::conv_2d_cl<input_t, input_t, config3>(padded, summed, w3, b3); // conv
    nnet::add<input_t, input_t, result_t, config4>(right, summed, out); // sum
}
