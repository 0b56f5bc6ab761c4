export interface ClientLines { name: string, code: string, note: string | null }

const KEY = 'From another machine the key is a token: svc token create NAME --authority read invoke'

/** Lines to copy for each client, with the address of a node. */
export function clients (origin: string): ClientLines[] {
  return [
    {
      name: 'curl',
      note: KEY,
      code: `curl ${origin}/v1/chat/completions -H 'content-type: application/json' \\
  -d '{"model": "svc/guide", "messages": [{"role": "user", "content": "What is a runner?"}]}'`
    },
    { name: 'svc', note: null, code: `npx svc --url ${origin} run svc/guide "What is a runner?"` },
    {
      name: 'OpenAI (Python)', note: KEY, code: `from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key="none")
answer = client.chat.completions.create(
    model="svc/guide", messages=[{"role": "user", "content": "What is a runner?"}])
print(answer.choices[0].message.content)`
    },
    {
      name: 'OpenAI (JavaScript)', note: KEY, code: `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: 'none' })
const speech = await client.audio.speech.create({ model: 'svc/voice-en', voice: 'slt', input: 'Hello' })`
    },
    {
      name: 'Anthropic (Python)', note: KEY, code: `from anthropic import Anthropic

client = Anthropic(base_url="${origin}", api_key="none")
answer = client.messages.create(model="svc/guide", max_tokens=100,
                                messages=[{"role": "user", "content": "What is a runner?"}])`
    },
    {
      name: 'Ollama clients', note: 'Name this as the address of Ollama, also in Open WebUI.',
      code: `OLLAMA_HOST=${origin}/ollama`
    }
  ]
}
