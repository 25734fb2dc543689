"""What is shown of registered versions, for terminals, programs and pages."""
