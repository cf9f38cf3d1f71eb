// Placeholder
#pragma once
#include <cmath>
