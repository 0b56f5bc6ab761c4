// Superlinear regular expressions, allowed because their input is bounded; exponential ones never are.
export const allowed = [
  {
    expression: '/\\b(since|for how)\\b.*\\bwhen\\b|\\bhow long\\b|\\bwhen (did|was|has|is)\\b|^when$/',
    why: 'a question to the steward has at most 4,000 characters'
  }
]
