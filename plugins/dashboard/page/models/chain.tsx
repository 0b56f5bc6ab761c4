import { ask } from '../link.js'
import { Badge, Section, Sentence, Trouble, useLoaded } from '../ui/parts.js'
import { changes } from './live.js'

interface Link {
  link: string, ok: boolean | null, message: string, remedy: string | null, code: string | null
}
interface Chain { available: boolean, broken_link: string | null, links: Link[] }

const WORDS: Readonly<Record<string, string>> = {
  card: 'Known', copy: 'Files', backend: 'Engine', placement: 'Place', runner: 'Runner', request: 'Requests'
}

export function ChainSection ({ modelId }: { modelId: string }) {
  const { value, error, again } = useLoaded(async (signal) =>
    await ask<Chain>(`/models/${encodeURIComponent(modelId)}/availability`, { signal }),
  [modelId, changes.value])
  return (
    <Section
      title="What it needs to answer"
      aside={value !== null && (
        <Badge level={value.available ? 'ok' : 'warn'}>
          {value.available ? 'available' : 'not available'}
        </Badge>
      )}
    >
      {error !== null && <Trouble error={error} again={again} />}
      {value !== null && (
        <ol class="chain">
          {value.links.map(({ link, ok, message, remedy, code }) => (
            <li key={link} class={ok === null ? 'unknown' : ok ? 'whole' : 'broken'}>
              <p>
                <strong>{WORDS[link] ?? link}</strong>{' '}
                {ok === false && <Badge level="error">{code ?? 'broken'}</Badge>}
              </p>
              <p class="hint">{message}</p>
              {ok === false && remedy !== null && <p><Sentence text={remedy} /></p>}
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}
