import { createInterface, type Interface } from 'node:readline'
import { isVerbError, type VerbContext } from '../../../kernel/cli/index.js'

const PROMPT = '>>> '
/** Prompt for continuation lines of input that began with `"""`. */
const MORE = '... '
const FENCE = '"""'

export interface Conversation {
  /** The model name, shown in the line above the first prompt. */
  readonly about: string
  /** Sets the system message, or removes it for an empty text; returns the line to show. */
  system? (text: string): string
  /**
   * Answers the user's input; resolves to true if the signal ended the answer. The prompt prints a VerbError
   * and continues.
   */
  answer (text: string, signal: AbortSignal): Promise<boolean>
  forget (): void
}

const help = (usage: string, words: string): string => `${usage.padEnd(14)}${words}`

/** Runs the prompt until the user ends the conversation. Resolves to 0, or to 130 after Ctrl-C. */
export async function converse (ctx: VerbContext, conversation: Conversation): Promise<number> {
  const { stdin, stderr } = ctx.io
  const lines = createInterface({
    input: stdin, output: stderr, terminal: stderr.isTTY === true, prompt: PROMPT
  })
  const stop = (): void => { lines.close() }
  ctx.signal.addEventListener('abort', stop, { once: true })
  try {
    return await new Repl(ctx, lines, conversation).run()
  } finally {
    ctx.signal.removeEventListener('abort', stop)
    lines.close()
  }
}

class Repl {
  readonly #ctx: VerbContext
  readonly #lines: Interface
  readonly #conversation: Conversation
  /** The lines of unfinished `"""` input. */
  #block: string[] | null = null
  /** Aborts the current answer. */
  #answering: AbortController | null = null
  /** Whether the last key was Ctrl-C; a second Ctrl-C ends the conversation. */
  #warned = false
  #closed = false
  /** The exit status, once the user has ended the conversation. */
  #status: number | null = null

  constructor (ctx: VerbContext, lines: Interface, conversation: Conversation) {
    this.#ctx = ctx
    this.#lines = lines
    this.#conversation = conversation
    lines.on('SIGINT', () => { this.#interrupt() })
    lines.on('close', () => { this.#closed = true })
  }

  async run (): Promise<number> {
    this.#ctx.err.line(`${this.#conversation.about}: /help shows the commands, Ctrl-D ends`)
    this.#prompt()
    for await (const line of this.#lines) {
      await this.#handleLine(line)
      if (this.#status !== null || this.#ctx.signal.aborted) break
      this.#prompt()
    }
    // Ends the line, so that the shell prompt starts on a new one.
    if (this.#status !== 0) this.#ctx.io.stderr.write('\n')
    return this.#ctx.signal.aborted ? 130 : this.#status ?? 0
  }

  #prompt (): void {
    if (this.#closed) return
    this.#lines.setPrompt(this.#block === null ? PROMPT : MORE)
    this.#lines.prompt(true)
  }

  #interrupt (): void {
    if (this.#answering !== null) this.#answering.abort()
    else if (this.#warned) this.#end(130)
    else this.#dropLine()
    this.#warned = true
  }

  #dropLine (): void {
    this.#block = null
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#ctx.io.stderr.write('\n')
    this.#ctx.err.line('Ctrl-C again or Ctrl-D ends')
    this.#prompt()
  }

  #end (status: number): void {
    this.#status = status
    this.#lines.close()
  }

  async #handleLine (line: string): Promise<void> {
    this.#warned = false
    const [, name, rest = ''] = /^\/([a-z]+)(?:\s([^]*))?$/.exec(line.trim()) ?? []
    if (name !== undefined && this.#block === null) {
      this.#command(name, rest.trimStart())
      return
    }
    const text = this.#completeText(line)
    if (text !== null && text.trim() !== '') await this.#ask(text)
  }

  /** Adds a line; returns the complete text, or null while its `"""` is still open. */
  #completeText (line: string): string | null {
    const begins = this.#block === null
    if (begins && !line.trimStart().startsWith(FENCE)) return line
    const text = begins ? line.trimStart().slice(FENCE.length) : line
    const block = this.#block ?? []
    if (!text.trimEnd().endsWith(FENCE)) {
      this.#block = [...block, text]
      return null
    }
    this.#block = null
    return [...block, text.trimEnd().slice(0, -FENCE.length)].join('\n').trim()
  }

  #command (name: string, rest: string): void {
    const { err } = this.#ctx
    const { system, forget } = this.#conversation
    if (name === 'help') for (const line of this.#help()) err.line(line)
    else if (name === 'exit' || name === 'bye') this.#end(0)
    else if (name === 'clear') {
      forget()
      err.line('the conversation is cleared')
    } else if (name === 'system' && system !== undefined) err.line(system(rest))
    else err.line(`unknown command /${name}; /help shows the commands`)
  }

  #help (): string[] {
    return [
      help('/clear', 'clear the conversation'),
      ...this.#conversation.system === undefined ? []
        : [help('/system TEXT', 'set the system message; without TEXT remove it')],
      help('/help', 'show this'),
      help('/exit, /bye', 'end the conversation, like Ctrl-D'),
      help(FENCE, 'begin and end a text of several lines'),
      'Ctrl-C stops an answer; again, or twice at the prompt, ends the conversation'
    ]
  }

  async #ask (text: string): Promise<void> {
    const answering = new AbortController()
    this.#answering = answering
    try {
      const ended = await this.#conversation.answer(text, answering.signal)
      if (ended) this.#ctx.err.line('(stopped)')
      // The answer ended on its own, so a late Ctrl-C must not count towards ending the conversation.
      else this.#warned = false
    } catch (error) {
      if (!isVerbError(error) || this.#ctx.signal.aborted) throw error
      this.#ctx.err.line(`${this.#ctx.err.paint('red', 'svc:')} ${error.message}`)
    } finally {
      this.#answering = null
    }
  }
}
