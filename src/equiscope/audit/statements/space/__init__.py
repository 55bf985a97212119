"""Space: properties of models of points: energies, the forces that follow from them, and precision."""
