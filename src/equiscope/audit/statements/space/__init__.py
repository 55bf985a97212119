"""Space: properties of models that read points: energies, the forces that follow from them, and exactness."""
