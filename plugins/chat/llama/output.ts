/** What a server prints: bounded, and kept for the message about its end. Pure. */

const LINE_CHARS = 500
const KEPT_LINES = 5
/** Lines for the node's log in each window; the rest is counted. */
const LOGGED_LINES = 10
const WINDOW_MS = 10_000
const ALARMING = /\b(error|fail(ed|ure)?|warn(ing)?|abort(ed)?|assert|exception|fatal|out of memory)\b/i

/** Cuts output into lines, long ones into their first 500 characters. */
export class LineCutter {
  private readonly decoder = new TextDecoder()
  private rest = ''

  push (bytes: Uint8Array): string[] {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split(/[\r\n]+/)
    // One character more than is kept shows that the line is too long.
    this.rest = (lines.pop() as string).slice(0, LINE_CHARS + 1)
    return lines.filter((line) => line !== '').map(cut)
  }
}

const cut = (line: string): string => line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line

/** Keeps the last lines, and hands alarming ones to a log, a few at a time. `now` is monotonic, in ms. */
export class Output {
  private readonly log: (line: string, leftOut: number) => void
  private readonly now: () => number
  private readonly kept: string[] = []
  private since = -Infinity
  private logged = 0
  private leftOut = 0

  constructor (log: (line: string, leftOut: number) => void, now: () => number) {
    this.log = log
    this.now = now
  }

  add (line: string): void {
    this.kept.push(line)
    if (this.kept.length > KEPT_LINES) this.kept.shift()
    if (ALARMING.test(line)) this.alarm(line)
  }

  /** The last lines in one. */
  get last (): string { return this.kept.join(' | ') }

  private alarm (line: string): void {
    const now = this.now()
    if (now - this.since >= WINDOW_MS) {
      this.since = now
      this.logged = 0
    }
    if (++this.logged > LOGGED_LINES) {
      this.leftOut++
      return
    }
    this.log(line, this.leftOut)
    this.leftOut = 0
  }
}
