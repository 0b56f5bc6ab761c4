import { isEnglish, PHONEMIZER_COMMAND } from '../languages.js'
import type { EngineHelp } from '../../../kernel/cli/index.js'

export default {
  // For all languages of the card.
  hint ({ family, languages }) {
    if (family === 'flite') return undefined
    const codes = family === 'kokoro' ? languages : languages.slice(0, 1)
    const others = codes.filter((code) => !isEnglish(code))
    if (others.length === 0) return undefined
    return `for ${others.join(', ')} it needs a package on the node that speaks: \`${PHONEMIZER_COMMAND}\` ` +
      '(GPL-3.0) in the svc folder, then a restart'
  }
} satisfies EngineHelp
