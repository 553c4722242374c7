// What a row is, how rows are cut into blocks and pieces, and how loads and stores lie in these.
#include "cpu/region/schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "cpu/kernels/interleave.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// Without reductions.
constexpr std::int64_t least_row = 256;    // shorter rows are not worth a block of their own
constexpr std::int64_t least_piece = 256;  // elements
constexpr std::int64_t greatest_piece = 2048;
constexpr std::int64_t register_bytes = 24 << 10;   // for all registers of a piece: half of a nearest cache
constexpr std::int64_t line_elements = cache_line;  // a whole line of the smallest elements, whole lines of others
constexpr std::int64_t greatest_period = 2048;
constexpr std::int64_t tile_side = 32;  // elements; half a cache line at least
constexpr std::int64_t tile_elements = 1024;
constexpr std::int64_t thin_tile_elements = 3072;  // of a few rows, which are moved and computed as lines
// With reductions.
constexpr std::int64_t longest_row = 16384;  // several registers of it fit into a second-level cache
constexpr std::int64_t longest_column = 1024;
constexpr std::int64_t short_row = 1024;     // shorter ones are taken several at a time
constexpr std::int64_t short_rows = 2048;    // elements of such a block
constexpr std::int64_t column_block = 8192;  // elements of a block of columns, if it has several pieces or groups
constexpr std::int64_t whole_columns =
    32768;  // … if not: the lines of a narrow one would be parts of cache lines and pages
constexpr std::int64_t blocks_of_columns = 8;  // at least, unless they would be narrow
constexpr std::int64_t least_width = 16;       // a cache line of float32
constexpr std::int64_t greatest_width = 512;
constexpr std::int64_t long_piece = 4096;
constexpr std::int64_t enough_blocks = 32;  // to share between workers; else rows are cut into parts
constexpr std::int64_t enough_parts = 64;
constexpr std::int64_t far_bytes = 16 << 20;  // operands of this size are asked for one piece ahead

// Stores of this size go past the caches: the third one does not hold them. Rows of reductions do so sooner, whose
// operands then stay in it.
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
void collapse(Blocking& blocking, const Region& region, const std::vector<Sizes>& strides, int from, int to) {
    const int first = blocking.rank;
    for (int d = from; d < to; ++d) {
        const std::int64_t size = region.sizes[d];
        if (size == 1) {
            continue;
        }
        bool joins = blocking.rank > first;
        for (std::size_t s = 0; joins && s < strides.size(); ++s) {
            joins = blocking.streams[s].strides[blocking.rank - 1] == strides[s][d] * size;
        }
        const int at = joins ? blocking.rank - 1 : blocking.rank++;
        blocking.sizes[at] = joins ? blocking.sizes[at] * size : size;
        for (std::size_t s = 0; s < strides.size(); ++s) {
            blocking.streams[s].strides[at] = strides[s][d];
        }
    }
    if (blocking.rank == first) {
        blocking.sizes[blocking.rank++] = 1;
    }
}

// The dimension along which some tensor is packed that is not packed along the last one, as a transposed one is; -1:
// there is none.
int find_tile_axis(const Blocking& blocking, const Region& region) {
    if (std::ranges::any_of(region.instructions, &RegionInstruction::counts)) {
        return -1;  // the elements of a rectangle are no sequence
    }
    const int last = blocking.rank - 1;
    for (const Stream& stream : blocking.streams) {
        for (int d = 0; d < last; ++d) {
            if (stream.strides[d] == stream.item && stream.strides[last] != 0) {
                return d;
            }
        }
    }
    return -1;
}

// Blocks are rows of tiles, of this dimension and the last one.
void cut_tiles(Blocking& blocking, int axis) {
    const auto move_before_last = [&](Sizes& each) {
        std::rotate(each.begin() + axis, each.begin() + axis + 1, each.begin() + blocking.rank - 1);
    };
    move_before_last(blocking.sizes);
    for (Stream& stream : blocking.streams) {
        move_before_last(stream.strides);
    }
    blocking.mode = Blocking::Mode::tiles;
    blocking.line = blocking.sizes[blocking.kept - 1];
    const std::int64_t elements = blocking.line <= most_channels ? thin_tile_elements : tile_elements;
    const auto fitting = [&](std::int64_t size, std::int64_t other) {
        return std::min(size, std::max(tile_side, elements / other / tile_side * tile_side));
    };
    blocking.piece = blocking.part = fitting(blocking.length, std::min(blocking.line, tile_side));
    blocking.width = fitting(blocking.line, blocking.piece);
}

// Of reductions: whole rows or columns, unless they are long.
void cut_rows(Blocking& blocking) {
    blocking.width = blocking.length < short_row ? std::min(blocking.rows, short_rows / blocking.length) : 1;
}

void cut_columns(Blocking& blocking, bool may_group) {
    blocking.mode = Blocking::Mode::columns;
    blocking.line = blocking.sizes[blocking.kept - 1];
    const std::int64_t width = std::min(whole_columns / blocking.length, blocking.rows / blocks_of_columns);
    const std::int64_t most = blocking.is_long ? greatest_width : std::clamp(width, least_width, greatest_width);
    blocking.width = std::min(blocking.line, most);
    const std::int64_t fitting = column_block / (blocking.line * blocking.length);
    const std::int64_t groups = std::min(blocking.rows / blocking.line, fitting);
    if (may_group && !blocking.is_long && groups > 1) {
        blocking.group = blocking.line;
        blocking.width = groups * blocking.group;
        blocking.line = blocking.rows;
    }
}

// Takes them in pieces, and shares those between workers if there are few rows.
void cut_long_rows(Blocking& blocking) {
    blocking.piece = blocking.has_columns() ? std::max<std::int64_t>(1, column_block / blocking.width) : long_piece;
    blocking.count();
    const std::int64_t pieces = quotient_up(blocking.length, blocking.piece), blocks = blocking.blocks;
    const std::int64_t parts = blocks >= enough_blocks ? 1 : std::min(pieces, quotient_up(enough_parts, blocks));
    blocking.part = quotient_up(pieces, parts) * blocking.piece;
}

// The elements after which a load begins anew.
std::int64_t period(const Blocking& blocking, const Sizes& strides) {
    std::int64_t result = 1;
    for (int d = blocking.rank - 1; d >= 0 && !all_zero(strides, 0, d + 1); --d) {
        result *= blocking.sizes[d];
    }
    return result;
}

Breadth breadth_of_load(const Blocking& blocking, const Region& region, const Sizes& strides) {
    const bool same_in_all = all_zero(strides, 0, blocking.kept);
    const bool by_row = !blocking.has_tiles() || blocking.piece >= least_piece;
    if (all_zero(strides, blocking.kept, blocking.rank) && (same_in_all || by_row)) {
        return same_in_all ? Breadth::scalar : Breadth::narrow;
    }
    bool fixed = same_in_all && !blocking.is_long && blocking.rows > 1;
    if (blocking.has_tiles()) {  // the same in all tiles: one element for each of their rows
        fixed = blocking.width == blocking.line && all_zero(strides, 0, blocking.kept - 1) &&
                all_zero(strides, blocking.kept, blocking.rank);
    } else if (!region.has_rows()) {
        const std::int64_t elements = period(blocking, strides);
        fixed = blocking.kept == 0 && elements <= greatest_period && elements < blocking.length;
    }
    return fixed ? Breadth::fixed : Breadth::wide;
}

void classify(Blocking& blocking, const Region& region, std::size_t s) {
    const bool load = s < region.loads.size();
    const bool narrow = !load && region.stores[s - region.loads.size()].narrow;
    const int kept = blocking.kept, rank = blocking.rank;
    const std::int64_t width = blocking.width;
    Stream& stream = blocking.streams[s];
    const Sizes& strides = stream.strides;
    stream.breadth = load ? breadth_of_load(blocking, region, strides) : narrow ? Breadth::narrow : Breadth::wide;
    for (std::int64_t d = kept - 1, back = 0; d >= 0; back += (blocking.sizes[d] - 1) * strides[d], --d) {
        stream.jumps[d] = strides[d] - back;
    }
    std::int64_t unit = stream.item;
    const auto side_by_side = [&](int from, int to) { return packed(blocking.sizes, strides, from, to, unit); };
    const bool wide = stream.breadth == Breadth::wide, one_line = blocking.has_one_line();
    if (stream.breadth == Breadth::scalar || stream.breadth == Breadth::narrow) {
        stream.direct = side_by_side(one_line ? kept - 1 : 0, kept) || width == 1;
        return;
    }
    stream.step = blocking.has_columns() ? strides[kept] : stream.item;
    switch (blocking.mode) {
        case Blocking::Mode::rows:
            stream.direct = side_by_side(kept, rank) && (width == 1 || side_by_side(0, kept));
            break;
        case Blocking::Mode::columns:  // lines, the lines of a group, and the groups
            stream.direct = wide && side_by_side(kept - 1, kept);
            stream.lined = stream.direct && one_line && rank == kept + 1;
            stream.direct = stream.direct && side_by_side(kept, rank) &&
                            (one_line ? stream.lined && width == blocking.line : side_by_side(0, kept - 1));
            break;
        case Blocking::Mode::tiles:
            stream.lined = wide && strides[kept] == stream.item && blocking.piece >= least_piece;
            break;
    }
    stream.streaming = !load && stream.direct &&
                       blocking.rows * blocking.length * stream.item >=
                           (region.has_rows() ? streaming_bytes_of_rows : streaming_bytes);
}

// Whether a piece of a load is followed by the next one, in memory that the caches do not hold. Asking for what is in
// the third one takes longer than waiting for it.
bool is_far(const Blocking& blocking, const Stream& stream) {
    return stream.breadth == Breadth::wide && stream.direct && !blocking.has_columns() &&
           blocking.rows * blocking.length * stream.item >= far_bytes;
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
        piece =
            piece / line_elements * line_elements;  // whole lines, so that two threads never write into the same one
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
    int tile_axis = -1;
    if (region.has_rows()) {
        collapse(schedule, region, strides, region.kept, region.rank);
    } else {
        tile_axis = find_tile_axis(schedule, region);
        const int last = schedule.rank - 1;
        schedule.kept = tile_axis >= 0 || schedule.sizes[last] >= least_row ? last : 0;
    }
    const auto product = [&](int from, int to) {
        return std::accumulate(schedule.sizes.begin() + from, schedule.sizes.begin() + to, std::int64_t{1},
                               std::multiplies<>());
    };
    schedule.rows = schedule.line = product(0, schedule.kept);
    schedule.length = schedule.piece = schedule.part = product(schedule.kept, schedule.rank);
    schedule.is_long = region.has_rows() && is_long_row(schedule.length, region.columns);
    if (tile_axis >= 0) {
        cut_tiles(schedule, tile_axis);
    } else if (region.has_rows() && region.columns) {
        cut_columns(schedule, std::ranges::none_of(region.instructions, &RegionInstruction::counts));
    } else if (region.has_rows()) {
        cut_rows(schedule);
    }
    if (schedule.is_long) {
        cut_long_rows(schedule);
    }
    for (std::size_t s = 0; s < strides.size(); ++s) {
        classify(schedule, region, s);
    }
    static_cast<Operations&>(schedule) = assign(schedule, region);
    for (std::size_t load = 0; region.has_rows() && load < region.loads.size(); ++load) {
        if (is_far(schedule, schedule.streams[load])) {
            schedule.far.push_back(static_cast<std::int32_t>(load));
        }
    }
    if (!region.has_rows() && !schedule.has_tiles()) {
        cut_pieces(schedule, region);
    }
    schedule.count();
    schedule.cost = cost_of(schedule, region);
    lay_out_scratch(schedule, region);
    return schedule;
}

}  // namespace dmlgraph::cpu
