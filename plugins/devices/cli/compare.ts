import { canAsk, confirm, readLine } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/**
 * How a side compares its six digits with those of the other: it asks, or reads those once. Throws CliError
 * (2) when nobody can be asked: a yes that is piped in compares nothing.
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
