typedef nnet::array<ap_fixed<16,6>, 2*1> input_t;
typedef nnet::array<ap_ufixed<8,4>, 2*1> result_t;
