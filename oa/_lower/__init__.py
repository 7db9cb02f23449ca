"""Graph x device profile -> Plan. Pure functions: no handles, files, clock or environment."""
