project = "A book of mine"
extensions = ["myst_parser"]
html_static_path = ["_static"]  # love.html and equiscope-figure.js
html_js_files = ["equiscope-figure.js"]
