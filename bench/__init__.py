"""Programs that measure. Figures are for one machine; compare only what one run printed."""
