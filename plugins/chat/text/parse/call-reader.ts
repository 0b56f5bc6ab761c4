import { parsed } from '../../json.js'
import { toolFormats } from '../tool-formats.js'

/** What is new of a tool call; `name` comes once, before the first arguments. */
export interface CallDelta { name?: string, arguments?: string }

const ARGUMENT_KEYS: readonly string[] = Object.values(toolFormats).map(({ argumentsKey }) => argumentsKey)
/** Keys of a call; an object with another one first is something else. */
const CALL_KEYS = ['name', 'type', 'id', ...ARGUMENT_KEYS]

/**
 * Reads one JSON object `{"name": …, "arguments": {…}}` character by character and returns the name and
 * the text of the arguments as they come. Other keys are ignored. Nothing is returned before the name is
 * known and the arguments have begun.
 */
export class CallReader {
  /** `open`, or how it ended: a call, or something else. */
  state: 'open' | 'call' | 'other' = 'open'
  /** Everything read so far. */
  text = ''
  private depth = 0
  private inString = false
  private escaped = false
  /** The key at depth 1 whose value is read; null while a key is read. */
  private key: string | null = null
  /** Text of the current key or value, unless it belongs to the arguments. */
  private part = ''
  private name: string | null = null
  private hasArguments = false
  /** The characters that come belong to the object of the arguments. */
  private inArguments = false
  /** Text of the arguments that was not returned yet. */
  private held = ''
  private nameReturned = false

  push (c: string): CallDelta | null {
    this.text += c
    if (this.depth === 0) this.first(c)
    else if (this.inString) this.inside(c)
    else this.outside(c)
    return this.news()
  }

  /** Whether this is a call for certain. */
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
    if (c === '{' || c === '[') return this.opened(c)
    if (c === '}' || c === ']') return this.closed(c)
    if (this.depth === 1 && c === ',') return this.ended()
    if (this.depth === 1 && c === ':' && this.key === null) {
      this.key = stringIn(this.part) ?? ''
      this.part = ''
      if (!this.certain && !CALL_KEYS.includes(this.key)) this.state = 'other'
      return
    }
    if (c === '"') this.inString = true
    if (this.depth > 1 || !/\s/.test(c)) this.add(c)
  }

  private opened (c: string): void {
    this.depth++
    if (this.depth === 2 && this.isArguments()) {
      this.hasArguments = true
      this.inArguments = true
    }
    this.add(c)
  }

  private closed (c: string): void {
    if (this.depth === 1) this.ended()
    else this.add(c)
    this.depth--
    if (this.depth === 1) this.inArguments = false
    if (this.depth === 0) this.state = this.certain ? 'call' : 'other'
  }

  /** A value is complete. */
  private ended (): void {
    if (this.key === 'name' && this.name === null) this.name = stringIn(this.part)
    else if (this.isArguments() && this.part !== '') {
      // JSON inside a text, or null.
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

/** The string that a JSON text stands for; null for anything else. */
function stringIn (json: string): string | null {
  const value = parsed(json)
  return typeof value === 'string' ? value : null
}
