import { canAsk, confirm, readLine, type VerbContext } from '../../../kernel/cli/index.js'

/** Compares the digits on node and device, by asking the user or by reading them from stdin. */
export interface Comparison {
  /** Whether both sides show the same digits. Throws VerbError (2) if stdin ends without digits. */
  same (digits: string, question: string): Promise<boolean>
  /** Starts to read stdin; later calls throw VerbError (2) once stdin has ended without digits. */
  check (): void
}

/** Throws VerbError (2) if there is no terminal, because a piped "yes" does not compare digits. */
export function digitComparison (ctx: VerbContext, options: Record<string, unknown>): Comparison {
  if (options['digitsStdin'] !== true) {
    if (!canAsk(ctx)) {
      throw ctx.fail(2, 'the six digits of both sides must be compared, and there is no terminal to ask: ' +
        'use --digits-stdin and write the digits that the other side shows to stdin')
    }
    return { same: async (_digits, question) => await confirm(ctx, question), check () {} }
  }
  let given: Promise<string> | undefined
  let failure: unknown
  const read = async (): Promise<string> => {
    const line = (await readLine(ctx))?.replaceAll(' ', '') ?? ''
    if (line === '') throw ctx.fail(2, 'stdin ended without the six digits that the other side shows')
    return line
  }
  return {
    same: async (digits) => await (given ??= read()) === digits,
    check () {
      given ??= read()
      given.catch((error: unknown) => { failure = error })
      if (failure !== undefined) throw failure
    }
  }
}
