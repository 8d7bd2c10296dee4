// A program without tests, of which the others have their precompiled header: see CMakeLists.txt.
