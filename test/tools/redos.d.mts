export interface Expression { pattern: string, flags: string, line: number }
export function expressionsIn (path: string, text: string): Expression[]
export function judge (expression: Pick<Expression, 'pattern' | 'flags'>): string
