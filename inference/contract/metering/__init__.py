"""What requests cost and use, and which of them a limit refuses: gateways decide by it, and previews of the control plane too."""
