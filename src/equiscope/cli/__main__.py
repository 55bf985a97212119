from equiscope.cli import main

main()
