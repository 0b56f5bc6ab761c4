// Superlinear regular expressions, allowed because their input is bounded; exponential ones never are.
export const allowed = []
