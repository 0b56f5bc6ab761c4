import type { ErrorDecl } from '../../kernel/index.js'

export const errors = {
  text_unspeakable: {
    status: 400, retryable: false, message: 'The text has nothing this voice can speak.',
    remedy: 'Send words in a script the voice speaks; `svc capabilities tts@1.0.0` shows the models.'
  },
  phonemizer_missing: {
    status: 400, retryable: false, message: 'This voice needs a phonemiser that is not installed.',
    remedy: 'Run `npm install piper-phonemize` in the svc folder and restart the node.'
  },
  model_invalid: {
    status: 502, retryable: false, message: 'The model files do not fit together.',
    remedy: 'Check the model card and its files; `svc status` shows why the runner failed.'
  },
  model_incomplete: {
    status: 502, retryable: false, message: 'A file of the model is missing.',
    remedy: 'Compare the model card with the files in the model\'s folder.'
  },
  format_unsupported: {
    status: 400, retryable: false, message: 'There is no encoder for this audio format here.',
    remedy: 'Ask for mp3, wav or pcm.'
  }
} as const satisfies Record<string, ErrorDecl>
