// Takes the mean of each row away from its pixels, two pixels in a cycle.
//
// Every pixel goes two ways: to `mean`, which has a result only at the end of a row, and straight to
// `subtract`, which needs that result before the first pixel of the row. So the FIFOs `direct` have
// to hold nearly a row. With the default depth of 2 the design deadlocks.
#include <hls_stream.h>

const int ROWS = 32;
const int COLUMNS = 32;
const int LANES = 2;

void read_in(const short image[ROWS][COLUMNS], hls::stream<short> direct[LANES],
             hls::stream<short> for_mean[LANES]) {
  in_rows: for (int row = 0; row < ROWS; row++) {
    in_columns: for (int column = 0; column < COLUMNS; column += LANES) {
      #pragma HLS PIPELINE II=1
      in_lanes: for (int lane = 0; lane < LANES; lane++) {
        short pixel = image[row][column + lane];
        direct[lane].write(pixel);
        for_mean[lane].write(pixel);
      }
    }
  }
}

void mean(hls::stream<short> for_mean[LANES], hls::stream<short>& means) {
  int sum = 0;
  mean_rows: for (int row = 0; row < ROWS; row++) {
    mean_columns: for (int column = 0; column < COLUMNS; column += LANES) {
      #pragma HLS PIPELINE II=1
      mean_lanes: for (int lane = 0; lane < LANES; lane++) {
        sum += for_mean[lane].read();
      }
      if (column == COLUMNS - LANES) {
        means.write(sum / COLUMNS);
        sum = 0;
      }
    }
  }
}

void subtract(hls::stream<short> direct[LANES], hls::stream<short>& means,
              hls::stream<short> differences[LANES]) {
  short average = 0;
  sub_rows: for (int row = 0; row < ROWS; row++) {
    sub_columns: for (int column = 0; column < COLUMNS; column += LANES) {
      #pragma HLS PIPELINE II=1
      if (column == 0) {
        average = means.read();
      }
      sub_lanes: for (int lane = 0; lane < LANES; lane++) {
        differences[lane].write(direct[lane].read() - average);
      }
    }
  }
}

void write_out(hls::stream<short> differences[LANES], short result[ROWS][COLUMNS]) {
  out_rows: for (int row = 0; row < ROWS; row++) {
    out_columns: for (int column = 0; column < COLUMNS; column += LANES) {
      #pragma HLS PIPELINE II=1
      out_lanes: for (int lane = 0; lane < LANES; lane++) {
        result[row][column + lane] = differences[lane].read();
      }
    }
  }
}

void branch(const short image[ROWS][COLUMNS], short result[ROWS][COLUMNS]) {
  #pragma HLS DATAFLOW
  hls::stream<short> direct[LANES];
  hls::stream<short> for_mean[LANES];
  hls::stream<short> means("means");
  hls::stream<short> differences[LANES];
  read_in(image, direct, for_mean);
  mean(for_mean, means);
  subtract(direct, means, differences);
  write_out(differences, result);
}
