import { parsed } from '../../../runners/language/json.js'

/** A piece of a tool call; `name` comes once, before the first arguments. */
export interface CallDelta { name?: string, arguments?: string }

const ARGUMENT_KEYS: readonly string[] = ['arguments', 'parameters']
const NAME_KEYS: readonly string[] = ['name', 'tool_name']
/** Keys that may occur in a tool call; an object whose first key is not one of these is not a call. */
const CALL_KEYS = ['type', 'id', 'tool_call_id', 'index', 'function', ...NAME_KEYS, ...ARGUMENT_KEYS]
/** Characters that JSON allows outside strings; any other character ends a broken object. */
export const OUTSIDE = /[\s{}[\]:,"\w+.-]/

/**
 * Reads a JSON object `{"name": …, "arguments": {…}}` character by character and returns the name, then the
 * text of the arguments in pieces. The call may also be the value of a key `function`. Ignores other keys.
 * Returns null until the name is known and the arguments have begun.
 */
export class CallReader {
  /** `open` until it is clear whether the object is a call (`call`) or something else (`other`). */
  state: 'open' | 'call' | 'other' = 'open'
  text = ''
  /** The character that ended a broken object but is not part of the object. */
  left = ''
  private depth = 0
  /** Nesting depth of the object that contains the name. */
  private base = 1
  private inString = false
  private escaped = false
  /** The key whose value is being read; null while a key is read. */
  private key: string | null = null
  /** Text of the key or value being read, outside the arguments. */
  private part = ''
  private name: string | null = null
  private hasArguments = false
  private inArguments = false
  /** Text of the arguments that has not been returned yet. */
  private held = ''
  private nameReturned = false

  push (c: string): CallDelta | null {
    this.text += c
    if (this.depth === 0) this.first(c)
    else if (this.inString) this.inside(c)
    else this.outside(c)
    return this.news()
  }

  get certain (): boolean {
    return this.name !== null && this.hasArguments
  }

  private first (c: string): void {
    if (c === '{') this.depth = 1
    else this.state = 'other'
  }

  private inside (c: string): void {
    this.add(c)
    if (this.escaped) this.escaped = false
    else if (c === '\\') this.escaped = true
    else if (c === '"') this.inString = false
  }

  private outside (c: string): void {
    if (!OUTSIDE.test(c)) {
      this.state = this.certain ? 'call' : 'other'
      this.left = c
      return
    }
    if (c === '{' || c === '[') return this.opened(c)
    if (c === '}' || c === ']') return this.closed(c)
    if (this.depth === this.base && c === ',') return this.ended()
    if (this.depth === this.base && c === ':' && this.key === null) {
      this.key = stringIn(this.part) ?? ''
      this.part = ''
      if (!this.certain && !CALL_KEYS.includes(this.key)) this.state = 'other'
      return
    }
    if (c === '"') this.inString = true
    if (this.depth > this.base || !/\s/.test(c)) this.add(c)
  }

  private opened (c: string): void {
    this.depth++
    if (c === '{' && this.depth === 2 && this.base === 1 && this.key === 'function' && !this.certain) {
      this.base = 2
      this.key = null
      return
    }
    if (this.depth === this.base + 1 && this.isArguments()) {
      this.hasArguments = true
      this.inArguments = true
    }
    this.add(c)
  }

  private closed (c: string): void {
    if (this.depth === this.base) this.ended()
    else this.add(c)
    this.depth--
    if (this.depth === this.base) this.inArguments = false
    if (this.depth < this.base && this.depth > 0) {
      // The inner object, the value of `function`, is complete; the outer object continues.
      this.base = 1
      this.key = 'function'
    }
    if (this.depth === 0) this.state = this.certain ? 'call' : 'other'
  }

  /** Handles the end of a key's value. */
  private ended (): void {
    if (NAME_KEYS.includes(this.key ?? '') && this.name === null) this.name = stringIn(this.part)
    else if (this.isArguments() && this.part !== '') {
      // The arguments may also be null, or a string that contains JSON.
      this.hasArguments = true
      this.held = stringIn(this.part) ?? (this.part === 'null' ? '{}' : this.part)
    }
    this.key = null
    this.part = ''
  }

  private isArguments (): boolean {
    return this.key !== null && ARGUMENT_KEYS.includes(this.key) && !this.hasArguments
  }

  private add (c: string): void {
    if (this.inArguments) this.held += c
    else this.part += c
  }

  private news (): CallDelta | null {
    if (!this.certain) return null
    const out: CallDelta = {}
    if (!this.nameReturned) out.name = this.name ?? ''
    if (this.held !== '') out.arguments = this.held
    this.nameReturned = true
    this.held = ''
    return out.name === undefined && out.arguments === undefined ? null : out
  }
}

/** Parses a JSON string; null for any other JSON value. */
function stringIn (json: string): string | null {
  const value = parsed(json)
  return typeof value === 'string' ? value : null
}
