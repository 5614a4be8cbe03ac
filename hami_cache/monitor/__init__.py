"""The long-running exporter and the two modules that write."""
