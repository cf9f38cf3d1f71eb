struct config1 : nnet::pooling2d_config {
    static const unsigned in_height = 8;
    static const unsigned in_width = 8;
    static const unsigned pool_height = 2;
    static const unsigned pool_width = 2;
    static const unsigned stride_height = 2;
    static const unsigned stride_width = 2;
};
struct config2 : nnet::padding2d_config {
    static const unsigned in_height = 4;
    static const unsigned in_width = 4;
    static const unsigned pad_top = 1;
    static const unsigned pad_bottom = 1;
    static const unsigned pad_left = 1;
    static const unsigned pad_right = 1;
};
struct config3 : nnet::conv2d_config {
    static const unsigned in_height = 6;
    static const unsigned in_width = 6;
    static const unsigned filt_height = 3;
    static const unsigned filt_width = 3;
    static const unsigned stride_height = 1;
    static const unsigned stride_width = 1;
    static const unsigned reuse_factor = 4;
    static const unsigned strategy = nnet::latency;
};
struct config4 : nnet::merge_config {
    static const unsigned n_elem = 32;
};
