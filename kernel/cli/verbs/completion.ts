import { scripts } from '../completion.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, [shell]) {
    const script = scripts[shell!]
    if (script === undefined) {
      throw ctx.fail(2, `no completion for "${shell!}"; there is: ${Object.keys(scripts).join(', ')}`)
    }
    ctx.io.stdout.write(script)
  }
} satisfies Verb
