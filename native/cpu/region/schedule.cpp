// What a row is, how rows are cut into blocks and pieces, and how loads and stores lie in these.
#include "cpu/region/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "cpu/kernels/interleave.h"
#include "cpu/quotient.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// Without reductions.
constexpr std::int64_t least_row = 256;     // shorter rows are not worth a block of their own
constexpr std::int64_t least_piece = 256;   // elements
constexpr std::int64_t greatest_piece = 2048;
constexpr std::int64_t register_bytes = 24 << 10;  // for all registers of a piece: half of a nearest cache
constexpr std::int64_t line_elements = cache_line;  // a whole line of the smallest elements, whole lines of others
constexpr std::int64_t greatest_period = 2048;
constexpr std::int64_t tile_side = 32;              // elements; half a cache line at least
constexpr std::int64_t tile_elements = 1024;
constexpr std::int64_t thin_tile_elements = 3072;  // of a few rows, which are moved and computed as lines
// With reductions.
constexpr std::int64_t longest_row = 16384;     // several registers of it fit into a second-level cache
constexpr std::int64_t longest_column = 1024;
constexpr std::int64_t short_row = 1024;        // shorter ones are taken several at a time
constexpr std::int64_t short_rows = 2048;       // elements of such a block
constexpr std::int64_t column_block = 8192;     // elements of a block of columns, if it has several pieces or groups
constexpr std::int64_t whole_columns = 32768;   // … if not: the lines of a narrow one would be parts of cache lines and pages
constexpr std::int64_t blocks_of_columns = 8;   // at least, unless they would be narrow
constexpr std::int64_t least_width = 16;        // a cache line of float32
constexpr std::int64_t greatest_width = 512;
constexpr std::int64_t long_piece = 4096;
constexpr std::int64_t enough_blocks = 32;      // to share between workers; else rows are cut into parts
constexpr std::int64_t enough_parts = 64;
constexpr std::int64_t far_bytes = 16 << 20;    // operands of this size are asked for one piece ahead

// Stores of this size go past the caches: the third one does not hold them. Rows of reductions do so sooner, whose operands
// then stay in it.
constexpr std::int64_t streaming_bytes = 32 << 20;
constexpr std::int64_t streaming_bytes_of_rows = 16 << 20;

bool all_zero(const Sizes& strides, int from, int to) {
    return std::all_of(strides.begin() + from, strides.begin() + to, [](std::int64_t stride) { return stride == 0; });
}

// Whether the dimensions from … to − 1 are one line of elements `unit` bytes apart, which is then the line's length.
bool packed(const Sizes& sizes, const Sizes& strides, int from, int to, std::int64_t& unit) {
    for (int d = to - 1; d >= from; --d) {
        if (sizes[d] > 1 && strides[d] != unit) {
            return false;
        }
        unit *= sizes[d];
    }
    return true;
}

// Adds the dimensions from … to − 1, those as one that go on where others end; at least one dimension.
void collapse(Schedule& schedule, const Region& region, const std::vector<Sizes>& strides, int from, int to) {
    const int first = schedule.rank;
    for (int d = from; d < to; ++d) {
        const std::int64_t size = region.sizes[d];
        if (size == 1) {
            continue;
        }
        bool joins = schedule.rank > first;
        for (std::size_t s = 0; joins && s < strides.size(); ++s) {
            joins = schedule.streams[s].strides[schedule.rank - 1] == strides[s][d] * size;
        }
        const int at = joins ? schedule.rank - 1 : schedule.rank++;
        schedule.sizes[at] = joins ? schedule.sizes[at] * size : size;
        for (std::size_t s = 0; s < strides.size(); ++s) {
            schedule.streams[s].strides[at] = strides[s][d];
        }
    }
    if (schedule.rank == first) {
        schedule.sizes[schedule.rank++] = 1;
    }
}

// The dimension along which some tensor is packed that is not packed along the last one, as a transposed one is; -1:
// there is none.
int find_tile_axis(const Schedule& schedule, const Region& region) {
    if (std::ranges::any_of(region.instructions, &RegionInstruction::counts)) {
        return -1;  // the elements of a rectangle are no sequence
    }
    const int last = schedule.rank - 1;
    for (const Stream& stream : schedule.streams) {
        for (int d = 0; d < last; ++d) {
            if (stream.strides[d] == stream.item && stream.strides[last] != 0) {
                return d;
            }
        }
    }
    return -1;
}

// Blocks are rows of tiles, of this dimension and the last one.
void choose_tiles(Schedule& schedule, int axis) {
    const auto move_before_last = [&](Sizes& each) {
        std::rotate(each.begin() + axis, each.begin() + axis + 1, each.begin() + schedule.rank - 1);
    };
    move_before_last(schedule.sizes);
    for (Stream& stream : schedule.streams) {
        move_before_last(stream.strides);
    }
    schedule.tiled = true;
    schedule.line = schedule.sizes[schedule.kept - 1];
    const std::int64_t elements = schedule.line <= most_channels ? thin_tile_elements : tile_elements;
    const auto fitting = [&](std::int64_t size, std::int64_t other) {
        return std::min(size, std::max(tile_side, elements / other / tile_side * tile_side));
    };
    schedule.piece = schedule.part = fitting(schedule.length, std::min(schedule.line, tile_side));
    schedule.width = fitting(schedule.line, schedule.piece);
}

// How reductions cut rows.
void cut_rows(Schedule& schedule, bool may_group) {
    const std::int64_t length = schedule.length;
    if (schedule.columns) {
        schedule.line = schedule.sizes[schedule.kept - 1];
        const std::int64_t width = std::min(whole_columns / length, schedule.rows / blocks_of_columns);
        schedule.width = std::min(schedule.line, schedule.is_long ? greatest_width : std::clamp(width, least_width, greatest_width));
        const std::int64_t groups = std::min(schedule.rows / schedule.line, column_block / (schedule.line * length));
        if (may_group && !schedule.is_long && groups > 1) {
            schedule.group = schedule.line;
            schedule.width = groups * schedule.group;
            schedule.line = schedule.rows;
        }
    } else {
        schedule.width = length < short_row ? std::min(schedule.rows, short_rows / length) : 1;
    }
    schedule.piece = schedule.part = length;
    if (schedule.is_long) {
        schedule.piece = schedule.columns ? std::max<std::int64_t>(1, column_block / schedule.width) : long_piece;
        const std::int64_t pieces = quotient_up(length, schedule.piece);
        const std::int64_t blocks = schedule.rows / schedule.line * quotient_up(schedule.line, schedule.width);
        const std::int64_t parts = blocks >= enough_blocks ? 1 : std::min(pieces, quotient_up(enough_parts, blocks));
        schedule.part = quotient_up(pieces, parts) * schedule.piece;
    }
}

// The elements after which a load begins anew.
std::int64_t period(const Schedule& schedule, const Sizes& strides) {
    std::int64_t result = 1;
    for (int d = schedule.rank - 1; d >= 0 && !all_zero(strides, 0, d + 1); --d) {
        result *= schedule.sizes[d];
    }
    return result;
}

Breadth breadth_of_load(const Schedule& schedule, const Region& region, const Sizes& strides) {
    const bool same_in_all = all_zero(strides, 0, schedule.kept);
    const bool by_row = !schedule.tiled || schedule.piece >= least_piece;
    if (all_zero(strides, schedule.kept, schedule.rank) && (same_in_all || by_row)) {
        return same_in_all ? Breadth::scalar : Breadth::narrow;
    }
    bool fixed = same_in_all && !schedule.is_long && schedule.rows > 1;
    if (schedule.tiled) {  // the same in all tiles: one element for each of their rows
        fixed = schedule.width == schedule.line && all_zero(strides, 0, schedule.kept - 1) &&
                all_zero(strides, schedule.kept, schedule.rank);
    } else if (!region.has_rows()) {
        const std::int64_t elements = period(schedule, strides);
        fixed = schedule.kept == 0 && elements <= greatest_period && elements < schedule.length;
    }
    return fixed ? Breadth::fixed : Breadth::wide;
}

void classify(Schedule& schedule, const Region& region, std::size_t s) {
    const bool load = s < region.loads.size();
    const bool narrow = !load && region.stores[s - region.loads.size()].narrow;
    const int kept = schedule.kept, rank = schedule.rank;
    const std::int64_t width = schedule.width;
    Stream& stream = schedule.streams[s];
    const Sizes& strides = stream.strides;
    stream.breadth = load ? breadth_of_load(schedule, region, strides) : narrow ? Breadth::narrow : Breadth::wide;
    for (std::int64_t d = kept - 1, back = 0; d >= 0; back += (schedule.sizes[d] - 1) * strides[d], --d) {
        stream.jumps[d] = strides[d] - back;
    }
    std::int64_t unit = stream.item;
    if (stream.breadth == Breadth::scalar || stream.breadth == Breadth::narrow) {
        const bool within_line = schedule.columns && schedule.group == 0;
        stream.direct = packed(schedule.sizes, strides, within_line ? kept - 1 : 0, kept, unit) || width == 1;
        return;
    }
    if (schedule.group != 0) {
        stream.direct = stream.breadth == Breadth::wide && packed(schedule.sizes, strides, kept - 1, kept, unit) &&
                        packed(schedule.sizes, strides, kept, rank, unit) && packed(schedule.sizes, strides, 0, kept - 1, unit);
    } else if (schedule.columns) {
        stream.lined = stream.breadth == Breadth::wide && rank == kept + 1 && (strides[kept - 1] == stream.item || width == 1);
        stream.direct = stream.lined && width == schedule.line && strides[kept] == width * stream.item;
    } else if (!schedule.tiled) {
        stream.direct = packed(schedule.sizes, strides, kept, rank, unit) &&
                        (width == 1 || packed(schedule.sizes, strides, 0, kept, unit));
    } else {
        stream.lined = stream.breadth == Breadth::wide && strides[kept] == stream.item && schedule.piece >= least_piece;
    }
    stream.step = schedule.columns ? strides[kept] : stream.item;
    stream.streaming = !load && stream.direct && schedule.rows * schedule.length * stream.item >=
                                                     (region.has_rows() ? streaming_bytes_of_rows : streaming_bytes);
}

// Whether a piece of a load is followed by the next one, in memory that the caches do not hold. Asking for what is in the
// third one takes longer than waiting for it.
bool is_far(const Schedule& schedule, const Stream& stream) {
    return stream.breadth == Breadth::wide && stream.direct && !schedule.columns &&
           schedule.rows * schedule.length * stream.item >= far_bytes;
}

// The pieces that leave all registers in the nearest cache.
void cut_pieces(Schedule& schedule, const Region& region) {
    std::int64_t repeats = 1, bytes = 0;
    for (std::size_t load = 0; load < region.loads.size(); ++load) {
        const Stream& stream = schedule.streams[load];
        if (stream.breadth == Breadth::fixed) {
            repeats = std::max(repeats, period(schedule, stream.strides));
        }
    }
    for (const Register& each : schedule.registers) {
        bytes += static_cast<std::int64_t>(each.bytes);
    }
    std::int64_t piece = std::clamp(bytes == 0 ? greatest_piece : register_bytes / bytes, least_piece, greatest_piece);
    piece = std::max(piece / repeats * repeats, repeats);
    if (repeats == 1) {
        piece = piece / line_elements * line_elements;  // whole lines, so that two threads never write into the same one
    }
    schedule.piece = schedule.part = std::min(piece, schedule.length);
}

void lay_out_scratch(Schedule& schedule, const Region& region) {
    std::size_t bytes = schedule.table_bytes(region);
    const auto elements = static_cast<std::size_t>(schedule.width * schedule.piece);
    for (Register& each : schedule.registers) {
        each.offset = bytes;
        bytes += align_to_line(each.is_wide ? each.bytes * elements : each.bytes);
    }
    schedule.scratch_bytes = bytes;
}

double cost_of(const Schedule& schedule, const Region& region) {
    double moved = 0;
    for (const RegionInstruction& each : region.instructions) {
        const bool wide = !each.narrow || each.reduction != nullptr;
        const double bytes = region.has_rows() ? 4.0 : static_cast<double>(item_size(each.result));
        moved += wide ? bytes * each.members : 0.0;
    }
    for (const RegionStore& each : region.stores) {
        moved += each.narrow ? 0.0 : static_cast<double>(item_size(each.view.type));
    }
    return moved * static_cast<double>(schedule.rows) * static_cast<double>(schedule.length);
}

}  // namespace

bool is_long_row(std::int64_t length, bool columns) { return length > (columns ? longest_column : longest_row); }

Schedule make_schedule(const Region& region, const std::vector<Sizes>& strides) {
    Schedule schedule;
    schedule.streams.resize(strides.size());
    for (std::size_t s = 0; s < strides.size(); ++s) {
        schedule.streams[s].item = static_cast<std::uint8_t>(item_size(region.stream(s).type));
    }
    collapse(schedule, region, strides, 0, region.has_rows() ? region.kept : region.rank);
    schedule.kept = schedule.rank;
    const bool copies = !region.has_rows() && region.instructions.empty() && region.loads.size() == 1 && region.stores.size() == 1;
    if (copies && !all_zero(strides[0], 0, region.rank)) {
        schedule.copying = make_copying(schedule.rank, schedule.sizes, schedule.streams[0].strides, schedule.streams[1].strides,
                                        schedule.streams[0].item);
    }
    int tile_axis = -1;
    if (region.has_rows()) {
        collapse(schedule, region, strides, region.kept, region.rank);
    } else {
        tile_axis = find_tile_axis(schedule, region);
        const int last = schedule.rank - 1;
        schedule.kept = tile_axis >= 0 || schedule.sizes[last] >= least_row ? last : 0;
    }
    const auto product = [&](int from, int to) {
        return std::accumulate(schedule.sizes.begin() + from, schedule.sizes.begin() + to, std::int64_t{1}, std::multiplies<>());
    };
    schedule.rows = schedule.line = product(0, schedule.kept);
    schedule.length = product(schedule.kept, schedule.rank);
    if (tile_axis >= 0) {
        choose_tiles(schedule, tile_axis);
    } else if (region.has_rows()) {
        schedule.columns = region.columns;
        schedule.is_long = is_long_row(schedule.length, schedule.columns);
        cut_rows(schedule, std::ranges::none_of(region.instructions, &RegionInstruction::counts));
    }
    for (std::size_t s = 0; s < strides.size(); ++s) {
        classify(schedule, region, s);
    }
    assign(schedule, region);
    for (std::size_t load = 0; region.has_rows() && load < region.loads.size(); ++load) {
        if (is_far(schedule, schedule.streams[load])) {
            schedule.far.push_back(static_cast<std::int32_t>(load));
        }
    }
    if (!region.has_rows() && !schedule.tiled) {
        cut_pieces(schedule, region);
    }
    schedule.line_blocks = quotient_up(schedule.line, schedule.width);
    schedule.blocks = schedule.rows / schedule.line * schedule.line_blocks;
    schedule.parts = quotient_up(schedule.length, schedule.part);
    schedule.cost = cost_of(schedule, region);
    lay_out_scratch(schedule, region);
    return schedule;
}

}  // namespace dmlgraph::cpu
