// Calls the design once, and compares its result with that of two plain loops.
const int ROWS = 32;
const int COLUMNS = 32;

void branch(const short image[ROWS][COLUMNS], short result[ROWS][COLUMNS]);

int main() {
  static short image[ROWS][COLUMNS];
  static short result[ROWS][COLUMNS];
  for (int row = 0; row < ROWS; row++) {
    for (int column = 0; column < COLUMNS; column++) {
      image[row][column] = (row * 37 + column * 11) % 251;
    }
  }
  branch(image, result);
  for (int row = 0; row < ROWS; row++) {
    int sum = 0;
    for (int column = 0; column < COLUMNS; column++) {
      sum += image[row][column];
    }
    for (int column = 0; column < COLUMNS; column++) {
      if (result[row][column] != image[row][column] - sum / COLUMNS) {
        return 1;
      }
    }
  }
  return 0;
}
