import { canAsk, confirm, readLine } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/**
 * How a side compares its six digits: by asking, or with given ones. Throws CliError (2) without a terminal:
 * a piped yes compares no digits.
 */
export function comparing (
  ctx: VerbContext, options: Record<string, unknown>
): (digits: string, question: string) => Promise<boolean> {
  if (options['digitsStdin'] !== true) {
    if (!canAsk(ctx)) {
      throw ctx.fail(2, 'the six digits of both sides must be compared, and without a terminal nobody can ' +
        'be asked: give --digits-stdin and write the digits that the other side shows to stdin')
    }
    return async (_digits, question) => await confirm(ctx, question)
  }
  let given: Promise<string | undefined> | undefined
  return async (digits) => {
    given ??= readLine(ctx)
    return (await given)?.replaceAll(' ', '') === digits
  }
}
