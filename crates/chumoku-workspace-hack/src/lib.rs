//! No code: the manifest makes all builds of the workspace use the same features of their dependencies.
