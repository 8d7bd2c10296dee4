#include "allocator/cli/top/screen.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "allocator/cli/refusal.h"
#include "allocator/cli/top/signals.h"
#include "allocator/cli/top/table.h"
#include "allocator/cli/top/view.h"

// Use ncurses functions instead of macros of the same names.
#define NCURSES_NOMACROS
#include <curses.h>

namespace rdmalloc::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Takes the terminal over for a full screen, and restores it.
class Screen {
 public:
  Screen() : screen_(newterm(nullptr, stdout, stdin)) {
    if (screen_ == nullptr) throw Refusal("top: this terminal cannot be used");
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
      init_pair(kOverPair, COLOR_RED, -1);
      over_ = COLOR_PAIR(kOverPair) | A_BOLD;
    }
  }
  ~Screen() {
    endwin();
    delscreen(screen_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  int rows() const { return getmaxy(stdscr); }
  int columns() const { return getmaxx(stdscr); }

  // Cuts the text at the right margin; ignores rows outside the screen.
  void put(int row, const std::string& text, attr_t look = A_NORMAL) const {
    if (row < 0 || row >= rows()) return;
    attrset(static_cast<int>(look));
    mvaddnstr(row, 0, text.c_str(), columns());
    attrset(A_NORMAL);
  }
  attr_t over() const { return over_; }

 private:
  static constexpr short kOverPair = 1;
  SCREEN* screen_;
  attr_t over_ = A_BOLD;
};

// What is shown of the last readings, and how.
class Pager {
 public:
  Pager(const ProcessFilter& filter, double seconds) : filter_(filter), seconds_(seconds) {}

  void look() {
    view_ = look_at_node(filter_);
    arrange();
  }

  void draw(const Screen& screen) {
    erase();
    const int rows = screen.rows();
    // A screen too small for both shows only the processes.
    const bool is_tiny = rows < kLeastRows;
    int row = 0;
    if (!is_tiny) row = draw_head(screen);
    const auto columns = columns_within(static_cast<size_t>(screen.columns()));
    screen.put(row++, padded(title_line(columns), screen), A_REVERSE);
    body_ = std::max(rows - row - (is_tiny ? 0 : kFootRows), 0);
    const auto& processes = view_.scan.processes;
    first_ = std::clamp(first_, 0, std::max(static_cast<int>(processes.size()) - body_, 0));
    const int end = std::min(first_ + body_, static_cast<int>(processes.size()));
    for (int i = first_; i < end; ++i) {
      const NodeProcess& one = processes[static_cast<size_t>(i)];
      screen.put(row++, line_of(one, columns), one.over.empty() ? A_NORMAL : screen.over());
    }
    if (!is_tiny) {
      screen.put(rows - 2, total_line(processes, columns), A_BOLD);
      screen.put(rows - 1, help());
    }
    refresh();
  }

  // False: quit.
  bool obey(int key) {
    const int page = std::max(body_ - 1, 1);
    switch (key) {
      case 'q':
        return false;
      case KEY_UP:
        --first_;
        break;
      case KEY_DOWN:
        ++first_;
        break;
      case KEY_PPAGE:
        first_ -= page;
        break;
      case KEY_NPAGE:
      case ' ':
        first_ += page;
        break;
      case KEY_HOME:
        first_ = 0;
        break;
      case KEY_END:
        first_ = static_cast<int>(view_.scan.processes.size());
        break;
      case 'a':
        filter_.all = !filter_.all;
        look();
        break;
      case 'R':
        order_.is_reversed = !order_.is_reversed;
        arrange();
        break;
      default:
        obey_order(key);
    }
    return true;
  }

 private:
  static constexpr int kLeastRows = 7;
  static constexpr int kFootRows = 2;
  static constexpr int kMostNotes = 3;

  void arrange() { sort_processes(&view_.scan.processes, order_); }

  void obey_order(int key) {
    const auto columns = all_columns();
    const auto has_key = [key](const ColumnInfo& column) { return column.key == key; };
    if (key != Order::kDefaultKey && std::ranges::none_of(columns, has_key)) return;
    order_ = {static_cast<char>(key), false};
    first_ = 0;
    arrange();
  }

  int draw_head(const Screen& screen) const {
    int row = 0;
    for (const std::string& line : head_lines(view_)) {
      if (row > kMostNotes || screen.rows() - row < kLeastRows) break;
      screen.put(row, line);
      ++row;
    }
    return row;
  }

  std::string help() const {
    char every[32];
    snprintf(every, sizeof every, "%g s", seconds_);
    const auto columns = all_columns();
    const auto sorted = std::ranges::find(columns, order_.key, &ColumnInfo::key);
    const std::string by = sorted == columns.end() ? "VMPIN + VMLCK" : sorted->title;
    return "q quit  a all  R reverse  sorted by " + by + (order_.is_reversed ? " reversed" : "") +
           "; every " + every + "; sort by: p pinned" + keys();
  }

  static std::string keys() {
    std::string text;
    for (const ColumnInfo& column : all_columns()) {
      text += std::string(" ") + column.key + " " + column.title;
    }
    return text;
  }

  static std::string padded(std::string line, const Screen& screen) {
    line.resize(std::max(line.size(), static_cast<size_t>(screen.columns())), ' ');
    return line;
  }

  ProcessFilter filter_;
  double seconds_;
  TopView view_;
  Order order_;
  int first_ = 0;  // of the processes shown
  int body_ = 0;   // rows for processes
};

// Obeys all pending keys. False: quit.
bool obey_keys(Pager* pager) {
  for (int key = getch(); key != ERR; key = getch()) {
    if (!pager->obey(key)) return false;
  }
  return true;
}

// False: ended by a signal.
bool show(Pager* pager, const Screen& screen, const TopSignals& signals, Clock::duration pause) {
  for (;;) {
    pager->look();
    const auto next = Clock::now() + pause;
    while (Clock::now() < next) {
      pager->draw(screen);
      const bool is_there = signals.wait(next - Clock::now());
      if (signals.has_caught()) return false;
      if (!is_there || !obey_keys(pager)) return true;
    }
  }
}

}  // namespace

int show_on_screen(const ProcessFilter& filter, double seconds) {
  const TopSignals signals;
  const auto pause =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  bool is_asked = false;
  {
    const Screen screen;
    Pager pager(filter, seconds);
    is_asked = show(&pager, screen, signals, pause);
  }
  if (!is_asked) signals.die();
  return kExitOk;
}

}  // namespace rdmalloc::cli
