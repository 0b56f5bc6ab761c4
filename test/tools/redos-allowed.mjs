// Expressions that are not linear, each with the bound of its input; exponential ones are never allowed.
export const allowed = [
  {
    expression: '/\\b(since|for how)\\b.*\\bwhen\\b|\\bhow long\\b|\\bwhen (did|was|has|is)\\b|^when$/',
    why: 'a question to the steward has at most 4,000 characters'
  }
]
