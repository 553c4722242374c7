# Builds several graphs over the same weights: a library and a program of each. It fetches nothing.
#
#   cmake -B build -DDML_REDIST=folder      the folder with DirectML.dll, which is copied beside the programs
#   cmake -B build -DDIRECTX_INCLUDE=folder  the folder that has directx/DirectML.h, if the Windows SDK's is too old
cmake_minimum_required(VERSION 3.16)
project(@{project}_and_others LANGUAGES CXX)

@{folders}
