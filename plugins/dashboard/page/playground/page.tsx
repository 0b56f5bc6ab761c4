// The playground: every kind of model tried out here, and each request shown for other programs.
import { linkTo, route } from '../route.js'
import { Chat } from './chat.js'
import { Completion } from './completion.js'
import { Embedding } from './embedding.js'
import { Speech } from './speech.js'
import type { ComponentType } from 'preact'

const MODES: Record<string, { title: string, component: ComponentType<{ asked: string | null }> }> = {
  chat: { title: 'Chat', component: Chat },
  speech: { title: 'Speech', component: Speech },
  completions: { title: 'Text', component: Completion },
  embeddings: { title: 'Vectors', component: Embedding }
}

export function PlaygroundPage () {
  const [name = 'chat', asked = null] = route.value.parts
  const known = name in MODES ? name : 'chat'
  const { component: Shown } = MODES[known]!
  return (
    <>
      <nav class="tabs" aria-label="What to try">
        {Object.entries(MODES).map(([to, { title }]) => (
          <a key={to} href={linkTo('playground', to)} aria-current={to === known ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Shown asked={asked} />
    </>
  )
}
