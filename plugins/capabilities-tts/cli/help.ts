import { isEnglish, PHONEMIZER_COMMAND } from '../languages.js'
import type { EngineHelp } from '../../../kernel/cli/index.js'

export default {
  // Each Kokoro voice has its own language; a Piper voice speaks the first language of its card.
  hint ({ family, languages }) {
    if (family === 'flite') return undefined
    const codes = family === 'kokoro' ? languages : languages.slice(0, 1)
    const others = codes.filter((code) => !isEnglish(code))
    if (others.length === 0) return undefined
    return `for ${others.join(', ')} its node needs a package: run \`${PHONEMIZER_COMMAND}\` (GPL-3.0) in ` +
      'its svc folder and restart it'
  }
} satisfies EngineHelp
