#include "allocator/tools/top/screen.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "allocator/tools/interrupts.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/terminal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/table.h"
#include "allocator/tools/top/view.h"

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
    if (has_colour(STDOUT_FILENO) && has_colors() && start_color() == OK &&
        use_default_colors() == OK) {
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
  void put(int row, const std::string& text, attr_t style = A_NORMAL) const {
    if (row < 0 || row >= rows()) return;
    attrset(static_cast<int>(style));
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

  void take_view() {
    view_ = view_of_machine(filter_);
    arrange();
  }

  void draw(const Screen& screen) {
    erase();
    const int rows = screen.rows();
    const auto width = static_cast<size_t>(screen.columns());
    const auto columns = columns_within(width);
    // A screen too small for both shows only the processes.
    const bool is_tiny = rows < kLeastRows;
    const Lines head = is_tiny ? Lines() : first_of(head_lines(view_, width), rows / kHeadShare);
    const Lines foot = is_tiny ? Lines() : first_of(help(columns, width), rows / kFootShare);
    int row = put_lines(screen, 0, head);
    screen.put(row++, padded(title_line(columns), screen), A_REVERSE);
    const int foot_row = rows - static_cast<int>(foot.size());
    const int total_row = is_tiny ? rows : foot_row - 1;
    body_ = std::max(total_row - row, 0);
    const auto& processes = view_.scan.processes;
    first_ = std::clamp(first_, 0, std::max(static_cast<int>(processes.size()) - body_, 0));
    const int end = std::min(first_ + body_, static_cast<int>(processes.size()));
    for (int i = first_; i < end; ++i) {
      const MachineProcess& one = processes[static_cast<size_t>(i)];
      screen.put(row++, line_of(one, columns), has_too_much(one) ? screen.over() : A_NORMAL);
    }
    screen.put(total_row, total_line(processes, columns), A_BOLD);
    put_lines(screen, foot_row, foot);
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
        take_view();
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
  using Lines = std::vector<std::string>;
  static constexpr int kLeastRows = 7;
  static constexpr int kHeadShare = 4;  // at most a fourth of the rows
  static constexpr int kFootShare = 6;

  static Lines first_of(Lines lines, int most) {
    lines.resize(std::min(lines.size(), static_cast<size_t>(most)));
    return lines;
  }

  // The row below them.
  static int put_lines(const Screen& screen, int row, const Lines& lines) {
    for (const std::string& line : lines) screen.put(row++, line);
    return row;
  }

  void arrange() { sort_processes(&view_.scan.processes, order_); }

  void obey_order(int key) {
    const auto columns = all_columns();
    const auto has_key = [key](const ColumnInfo& column) { return column.key == key; };
    if (key != Order::kDefaultKey && std::ranges::none_of(columns, has_key)) return;
    order_ = {static_cast<char>(key), false};
    first_ = 0;
    arrange();
  }

  Lines help(const std::vector<ColumnInfo>& columns, size_t width) const {
    const auto all = all_columns();
    const auto sorted = std::ranges::find(all, order_.key, &ColumnInfo::key);
    const std::string by = sorted == all.end() ? "VMPIN + VMLCK" : sorted->title;
    Lines words = {"q quit",
                   "a all",
                   "R reverse",
                   "sorted by " + by + (order_.is_reversed ? " reversed;" : ";"),
                   format("every %g s", seconds_),
                   "sort by:",
                   "p pinned"};
    for (const ColumnInfo& column : columns) {
      words.push_back(std::string(1, column.key) + " " + column.title);
    }
    return fill(words, "  ", width);
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

// Blocks the signal of a new size, which ncurses handles, except while waiting: so that none is
// missed between reading the size and waiting.
class ResizeBlocked {
 public:
  ResizeBlocked() {
    sigset_t resize;
    sigemptyset(&resize);
    sigaddset(&resize, SIGWINCH);
    sigprocmask(SIG_BLOCK, &resize, &before_);
  }
  ~ResizeBlocked() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  // Until there is a key, a signal, or the time is up. False: the terminal is gone.
  bool wait(Clock::duration time, int signals) const {
    const auto left = std::max(time, Clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit = {seconds.count(), static_cast<long>((left - seconds).count())};
    pollfd events[] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
    if (ppoll(events, std::size(events), &limit, &before_) <= 0) return true;
    return (events[0].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
  }

 private:
  sigset_t before_;
};

// False: ended by a signal.
bool show(Pager* pager, const Screen& screen, Interrupts* interrupts, Clock::duration pause) {
  const ResizeBlocked resize;
  for (;;) {
    pager->take_view();
    const auto next = Clock::now() + pause;
    while (Clock::now() < next) {
      pager->draw(screen);
      const bool is_there = resize.wait(next - Clock::now(), interrupts->descriptor());
      if (interrupts->pending() != 0) return false;
      if (!is_there || !obey_keys(pager)) return true;
    }
  }
}

}  // namespace

int show_on_screen(const ProcessFilter& filter, double seconds) {
  int ending = 0;
  {
    Interrupts interrupts({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
    const auto pause =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    const Screen screen;
    Pager pager(filter, seconds);
    if (!show(&pager, screen, &interrupts, pause)) ending = interrupts.pending();
  }
  return ending == 0 ? kExitOk : die_of(ending);
}

}  // namespace rdmalloc::cli
