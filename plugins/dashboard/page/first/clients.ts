import { chatLines } from '../playground/request.js'
import type { Lines } from '../ui/text.js'

const KEY = 'From another machine the key is a token: svc token create NAME --authority read invoke'
const messages = [{ role: 'user', content: 'What is a runner?' }]
const body = { model: 'svc/guide', messages, stream: true }

export const clients = (origin: string): Lines[] => [
  ...chatLines({ origin, path: '/v1/chat/completions', withToken: false, body }),
  {
    name: 'Anthropic (Python)', code: `from anthropic import Anthropic

client = Anthropic(base_url="${origin}", api_key="none")
answer = client.messages.create(model="svc/guide", max_tokens=100,
                                messages=[{"role": "user", "content": "What is a runner?"}])`
  },
  {
    name: 'Ollama clients', note: 'Name this as the address of Ollama, also in Open WebUI.',
    code: `OLLAMA_HOST=${origin}/ollama`
  }
].map((one) => ({ note: KEY, ...one }))
