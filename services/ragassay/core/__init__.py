"""What every package uses: models, documents, errors, files, settings. Imports nothing of the other packages."""
