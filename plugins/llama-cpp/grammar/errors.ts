import { EngineError } from '../../../kernel/api/engine.js'

/** The refusal of a schema; `path` is the JSON pointer of the keyword. */
export function invalid (path: string, why: string): EngineError {
  const message = `${path === '' ? 'the schema' : path} ${why}`
  return new EngineError('invalid_request', message, { issues: [{ path, message }] })
}

/** A pattern, a length or a number that no grammar of reasonable size expresses. */
export class NotExpressible extends Error {}

/** Bounds the work of one compilation. A step is about 50 ns. */
export class Budget {
  left = 4_000_000

  spend (steps: number): void {
    this.left -= steps
    if (this.left < 0) throw invalid('', 'is too large to compile: simplify its patterns or alternatives')
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A key as a part of a JSON pointer. */
export const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')
