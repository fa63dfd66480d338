use super::*;

fn code(html: &str) -> Option<&'static str> {
    read(html.as_bytes(), &Limits::default())
        .err()
        .map(|error| error.code)
}

const PAGES: [&str; 20] = [
    "<html><head><title>SEC.gov | Request Rate Threshold Exceeded</title></head><body><h1>Your Request Originates from an Undeclared Automated Tool</h1><p>To allow for equitable access, automated traffic is limited.</p></body></html>",
    "<html><head><title>403 Forbidden</title></head><body><center><h1>403 Forbidden</h1></center><hr><center>nginx</center></body></html>",
    "<html><head><title>Example</title></head><body><h1>404 - File or directory not found.</h1><p>The resource might have been removed.</p></body></html>",
    "<h1>Not Found</h1><p>HTTP Error 404.0</p><p>See the address.</p>",
    "<title>429 Too Many Requests</title><p>Slow down.</p>",
    "<title>Example</title><h2>503 Service Temporarily Unavailable</h2><p>Try again.</p>",
    "<title>Error</title><h1>HTTP 500 Internal Server Error</h1>",
    "<title>Access Denied</title><h1>Access Denied</h1><p>You don't have permission to access this file.</p><p>Reference #18.2</p>",
    "<title>Just a moment...</title><h1>www.example.com</h1><p>Checking your browser before you access it.</p>",
    "<title>Attention Required! | Shield</title><h1>Sorry, you have been blocked</h1>",
    "<title>example.com</title><h1>Please verify you are a human</h1><div id=captcha></div>",
    "<title>Robot Check</title><p>Enter the characters you see below</p>",
    "<title>Log in</title><form><label>Name</label><input name=user><label>Password</label><input type=password><button>Log in</button><a href=f>Forgot your password?</a></form>",
    "<title>Portal</title><h1>Sign in to your account</h1><form><input type='password'></form>",
    "<title>Reports</title><h2>We value your privacy</h2><p>We and our partners store information.</p><button>Accept all</button><button>Reject</button>",
    "<title>Before you continue</title><form><p>We use cookies and data.</p><input type=submit value=Agree></form>",
    "<title>Index of /reports/2024</title><h1>Index of /reports/2024</h1><pre><a href='..'>..</a>\n<a href=a.pdf>a.pdf</a>\n<a href=b.pdf>b.pdf</a></pre>",
    "<title>Directory Listing</title><ul><li><a href=a>a.htm</a></li><li><a href=b>b.htm</a></li></ul>",
    "<title>App</title><noscript><p>You need to enable JavaScript to run this app.</p></noscript><p>JavaScript is required</p><div id=root></div>",
    "<title>EDGAR Filing Documents for 0000123456-24-000001</title><p>Form 10-K</p><p><a href=a>a.htm</a></p><p><a href=b>b.htm</a></p><p><a href=c>c.xml</a></p>",
];

#[test]
fn pages_of_servers_are_not_documents() {
    for html in PAGES {
        assert_eq!(code(html), Some("html.not_a_document"), "{html}");
    }
    let error = read(PAGES[1].as_bytes(), &Limits::default()).unwrap_err();
    assert!(
        error.message.ends_with("it says “403 Forbidden”"),
        "{}",
        error.message
    );
    // What a script would fill has no text at all.
    let shell = "<title>App</title><noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div><script src=a.js></script>";
    assert_eq!(code(shell), Some("html.no_text"));
}

#[test]
fn short_documents_are_read() {
    for html in [
        "<title>Press release</title><h1>Acme reports third quarter results</h1><p>Revenue rose by 4 percent to 404 million.</p>",
        "<title>8-K</title><p>UNITED STATES SECURITIES AND EXCHANGE COMMISSION</p><p>FORM 8-K</p><p>404 Main Street, Springfield</p>",
        "<title>Memo</title><h1>Server maintenance costs in 2024</h1><p>The server room was moved.</p>",
        "<title>Exhibit 99.1</title><p>Exhibit 99.1</p><p>Letter to shareholders</p>",
        "<title>Privacy policy</title><h1>How we use data</h1><p>We keep what the law asks for.</p>",
        "<title>Policy</title><h1>Cookie consent policy of Acme Bakery</h1><p>Every cookie is baked with consent.</p>",
        "<title>Manual</title><h1>How to sign in</h1><p>Open the page and type your name.</p>",
        "<title>Index of exhibits</title><h1>Index of exhibits</h1><p><a href=a>3.1</a> Articles</p><p><a href=b>3.2</a> Bylaws</p>",
        "<title>Forbidden substances</title><h1>Forbidden substances in 2024</h1><p>The list follows.</p>",
        "<title>Report</title><h1>The number of requests found in 2023</h1><p>It was 512.</p>",
        "<title>Notice</title><h1>Notice of a meeting</h1><p>Members are invited.</p>",
        "<title>Contents</title><h1>Contents</h1><p><a href=#a>1 Overview</a></p><p><a href=#b>2 Risks</a></p><p id=a>Overview</p><p id=b>Risks</p>",
    ] {
        assert_eq!(code(html), None, "{html}");
    }
    // A long document may have any title.
    let long = format!(
        "<title>404 Not Found</title><p>{}</p>",
        "words ".repeat(1_000)
    );
    assert_eq!(code(&long), None);
}
